/** Two executions side by side: what each cost and took, their steps in pairs, and the first place where they part. */

import { type ReactNode, useMemo, useRef, useState } from "react";
import { Link } from "wouter";
import type { Execution } from "../api/client";
import { Button } from "../design/Button";
import { Icon, type IconName } from "../design/icons";
import { Empty, Failed, Loading } from "../design/States";
import { Status } from "../design/Status";
import { useNow } from "../design/Time";
import { useExecution, useLog, useStory, useTasks } from "../execution/data";
import type { Held } from "../log/log";
import { Id } from "../text/Copy";
import { Diff } from "../text/Diff";
import { Long, Plain } from "../text/Text";
import { cost, count, duration } from "../text/time";
import { compared, type Comparison, type Row, type Step, stepsOf } from "./align";

/** More of a log is not compared, and the page says so. */
const MOST_EVENTS = 20_000;
const MOST_ROWS = 200;
/** So many equal steps in a row are shown as one line. */
const FOLD = 3;

export function Compare({ left, right }: { left: string; right: string }) {
  const [one, other] = [useSide(left), useSide(right)];
  const found = useMemo(() => compared(one.steps, other.steps), [one.steps, other.steps]);
  for (const side of [one, other]) {
    if (side.view.isError && !side.view.data) return <Failed error={side.view.error} again={() => void side.view.refetch()} />;
    if (side.held.error && side.held.events.length === 0) return <Failed error={new Error(side.held.error)} />;
  }
  if (!one.view.data || !other.view.data || !one.held.whole || !other.held.whole) return <Loading what="both executions" />;
  const cut = Math.max(one.held.events.length, other.held.events.length) > MOST_EVENTS;
  return (
    <div className="flex flex-col gap-4">
      <Link href={`/executions/${left}`} className="flex w-fit items-center gap-1.5 text-sm text-quiet hover:text-ink">
        <Icon name="back" size={14} /> Execution
      </Link>
      <h1 className="text-xl font-semibold">Compare</h1>
      <Sums left={one.view.data} right={other.view.data} found={found} />
      {cut ? <p className="text-sm text-quiet">The first {count(MOST_EVENTS)} events of each are compared.</p> : null}
      <Steps key={`${left} ${right}`} found={found} />
    </div>
  );
}

function useSide(id: string) {
  const view = useExecution(id);
  const held = useLog(id);
  const tasks = useTasks(id, view.data?.finished_ms === null);
  const cut = useMemo<Held>(() => (held.events.length > MOST_EVENTS ? { ...held, events: held.events.slice(0, MOST_EVENTS) } : held), [held]);
  const story = useStory(cut, tasks);
  const steps = useMemo(() => stepsOf(story), [story]);
  return { view, held, steps };
}

type Fact = { readonly name: string; readonly left: ReactNode; readonly right: ReactNode; readonly difference: string };

function Sums({ left, right, found }: { left: Execution; right: Execution; found: Comparison }) {
  const now = useNow();
  const took = (view: Execution): number => (view.finished_ms ?? now) - view.created_ms;
  const calls = (side: "left" | "right"): number => found.rows.filter((row) => row[side]?.kind === "tool" && row[side].from === "").length;
  const known = left.usage.cost_usd != null && right.usage.cost_usd != null;
  const facts: Fact[] = [
    { name: "State", left: <Status state={left.state} small />, right: <Status state={right.state} small />, difference: left.state === right.state ? "same" : "differs" },
    { name: "Took", left: duration(took(left)), right: duration(took(right)), difference: signed(took(right) - took(left), duration) },
    { name: "Cost", left: costOf(left), right: costOf(right), difference: known ? signed((right.usage.cost_usd ?? 0) - (left.usage.cost_usd ?? 0), cost) : "unknown" },
    numbers("Tokens in", left.usage.input_tokens, right.usage.input_tokens),
    numbers("Tokens out", left.usage.output_tokens, right.usage.output_tokens),
    numbers("Model calls", left.usage.model_calls, right.usage.model_calls),
    numbers("Tool calls", calls("left"), calls("right")),
  ];
  return (
    <div className="card overflow-x-auto" tabIndex={0} role="region" aria-label="Sums">
      <table className="w-full border-collapse text-sm max-sm:text-xs">
        <thead>
          <tr className="text-left align-bottom">
            <td className="border-b border-line px-3 py-2 max-sm:px-1.5" />
            <Whose side="Left" view={left} />
            <Whose side="Right" view={right} />
            <th scope="col" className="border-b border-line px-3 py-2 max-sm:px-1.5 text-xs font-medium whitespace-nowrap text-quiet">
              Difference
            </th>
          </tr>
        </thead>
        <tbody>
          {facts.map((one) => (
            <tr key={one.name}>
              <th scope="row" className="border-b border-line px-3 py-1.5 max-sm:px-1.5 text-left font-medium whitespace-nowrap text-quiet">
                {one.name}
              </th>
              <td className="border-b border-line px-3 py-1.5 max-sm:px-1.5 tabular-nums">{one.left}</td>
              <td className="border-b border-line px-3 py-1.5 max-sm:px-1.5 tabular-nums">{one.right}</td>
              <td className="border-b border-line px-3 py-1.5 max-sm:px-1.5 whitespace-nowrap text-quiet tabular-nums">{one.difference}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className="px-3 py-2 text-xs text-quiet">What a fork took over from its origin cost it nothing, and is not counted for it.</p>
    </div>
  );
}

function Whose({ side, view }: { side: string; view: Execution }) {
  return (
    <th scope="col" className="border-b border-line px-3 py-2 max-sm:px-1.5 font-medium">
      <span className="block text-xs text-quiet">{side}</span>
      <span className="mr-2">
        <Plain text={view.agent} />
      </span>
      <Link href={`/executions/${view.id}`} className="inline-block font-normal text-accent underline underline-offset-2">
        <Id id={view.id} short />
      </Link>
    </th>
  );
}

function costOf(view: Execution): string {
  return view.usage.model_calls === 0 ? "none" : cost(view.usage.cost_usd);
}

function numbers(name: string, left: number, right: number): Fact {
  return { name, left: count(left), right: count(right), difference: signed(right - left, count) };
}

function signed(n: number, said: (n: number) => string): string {
  return n === 0 ? "same" : `${n > 0 ? "+" : "−"}${said(Math.abs(n))}`;
}

/** Rows, and runs of equal ones that are folded away. */
type Shown = { readonly kind: "row"; readonly row: Row; readonly at: number } | { readonly kind: "fold"; readonly at: number; readonly rows: readonly Row[] };

function Steps({ found }: { found: Comparison }) {
  const [unfolded, unfold] = useState<ReadonlySet<number>>(new Set());
  const [most, setMost] = useState(MOST_ROWS);
  const first = useRef<HTMLLIElement>(null);
  const shown = useMemo(() => folded(found.rows, unfolded), [found.rows, unfolded]);
  if (found.rows.length === 0) {
    return (
      <div className="card">
        <Empty icon="list" title="Neither has done anything yet" />
      </div>
    );
  }
  return (
    <section aria-labelledby="steps" className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-3">
        <h2 id="steps" className="text-lg font-semibold">
          Steps
        </h2>
        {found.first < 0 ? (
          <p className="toned tone-good flex items-center gap-2 rounded-md px-3 py-1 text-sm" role="status">
            <Icon name="check" size={14} /> They do not differ.
          </p>
        ) : (
          <Button icon="down" onClick={() => first.current?.scrollIntoView({ block: "center" })}>
            First difference: {found.rows[found.first]?.left?.title ?? found.rows[found.first]?.right?.title}
          </Button>
        )}
      </div>
      <ol className="flex flex-col gap-2">
        {shown.slice(0, most).map((one) =>
          one.kind === "fold" ? (
            <li key={`fold ${one.at}`}>
              <Button look="bare" icon="down" onClick={() => unfold(new Set([...unfolded, one.at]))}>
                {count(one.rows.length)} equal steps
              </Button>
            </li>
          ) : (
            <li key={one.row.key} ref={one.at === found.first ? first : undefined}>
              <Pair row={one.row} first={one.at === found.first} />
            </li>
          ),
        )}
      </ol>
      {shown.length > most ? <Button onClick={() => setMost(most + MOST_ROWS)}>Show more of {count(shown.length - most)}</Button> : null}
    </section>
  );
}

function folded(rows: readonly Row[], unfolded: ReadonlySet<number>): Shown[] {
  const found: Shown[] = [];
  let at = 0;
  while (at < rows.length) {
    let end = at;
    while (rows[end]?.same) end += 1;
    if (end - at >= FOLD && !unfolded.has(at)) found.push({ kind: "fold", at, rows: rows.slice(at, end) });
    else for (let each = at; each < Math.max(end, at + 1); each += 1) found.push({ kind: "row", row: rows[each] as Row, at: each });
    at = Math.max(end, at + 1);
  }
  return found;
}

const ICONS: Record<Step["kind"], IconName> = { input: "user", model: "spark", tool: "tool", step: "list", end: "check" };

function Pair({ row, first }: { row: Row; first: boolean }) {
  const one = row.left ?? row.right;
  if (!one) return null;
  const word = row.same ? "same" : row.left && row.right ? "differs" : row.left ? "only left" : "only right";
  return (
    <details className={`card ${first ? "border-accent ring-1 ring-accent" : ""}`} open={first}>
      <summary className="flex flex-wrap items-center gap-x-3 gap-y-1 p-3 text-sm">
        <Icon name={ICONS[one.kind]} className="text-quiet" />
        <span className="font-medium">
          <Plain text={one.title} />
        </span>
        <span className={`toned ${row.same ? "tone-off" : row.left && row.right ? "tone-wait" : "tone-hold"} rounded-full px-2 py-px text-xs font-medium`}>{word}</span>
        {first ? <span className="text-xs font-medium text-accent">First difference</span> : null}
        {one.kind === "input" || one.kind === "end" ? null : (
          <span className="ml-auto text-xs text-quiet tabular-nums">
            <Took step={row.left} /> <span aria-hidden="true">→</span>
            <span className="sr-only">on the left, on the right</span> <Took step={row.right} />
          </span>
        )}
      </summary>
      <Body row={row} />
    </details>
  );
}

function Took({ step }: { step: Step | null }) {
  if (!step) return <span>–</span>;
  if (step.from) return <span>{step.from === "edit" ? "edited" : "taken over"}</span>;
  const parts = [step.tookMs === null ? "" : duration(step.tookMs), step.kind === "model" ? costWord(step) : "", step.tokens ? `${count(step.tokens)} tokens` : ""];
  return <span>{parts.filter(Boolean).join(", ") || "–"}</span>;
}

function costWord(step: Step): string {
  return step.costUsd === null ? "" : cost(step.costUsd);
}

function Body({ row }: { row: Row }) {
  const [left, right] = [row.left, row.right];
  return (
    <div className="flex flex-col gap-3 border-t border-line p-3">
      {left && right && left.state !== right.state && left.kind !== "input" ? (
        <p className="flex flex-wrap items-center gap-2 text-sm">
          <StateOf step={left} /> <span aria-hidden="true">→</span> <StateOf step={right} />
        </p>
      ) : null}
      <Texts name={row.left?.kind === "input" || row.right?.kind === "input" ? "Input" : "Asked"} left={left ? left.asked : null} right={right ? right.asked : null} />
      <Texts name="Answer" left={left ? left.answered : null} right={right ? right.answered : null} />
    </div>
  );
}

function StateOf({ step }: { step: Step }) {
  return <Status of={step.kind === "end" ? "execution" : "step"} state={step.state} small />;
}

/** One text where both have it, the difference where they do not. Null: that side has no such step. */
function Texts({ name, left, right }: { name: string; left: string | null; right: string | null }) {
  if (!left && !right) return null;
  return (
    <div className="flex flex-col gap-1">
      <p className="text-xs font-medium text-quiet">{name}</p>
      {left !== null && right !== null && left !== right ? <Diff left={left} right={right} label={name} /> : <Long text={left ?? right ?? ""} label={name} />}
    </div>
  );
}
