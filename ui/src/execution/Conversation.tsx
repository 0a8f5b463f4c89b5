/** What was said: the input, the model's turns with the calls they asked for, what tools and people answered. */

import { useMemo, useState } from "react";
import type { Execution } from "../api/client";
import { Button } from "../design/Button";
import { Icon, type IconName } from "../design/icons";
import { Status } from "../design/Status";
import { Ago, Span } from "../design/Time";
import { shown } from "../log/event";
import type { Entry, ModelStep, News, Story, ToolStep } from "../log/story";
import { modelPlace, toolPlace } from "./edits";
import { ForkButton } from "./Fork";
import { Markdown } from "../text/Markdown";
import { Long, Plain } from "../text/Text";
import { count, duration } from "../text/time";
import { Making } from "./Making";

/** Entries that are laid out at first, the newest, and with each wish for more. */
const AT_ONCE = 200;

export function Conversation({ view, story }: { view: Execution; story: Story }) {
  const [most, setMost] = useState(AT_ONCE);
  const tools = useMemo(() => byTurn(story), [story]);
  const said = useMemo(() => story.entries.filter((one) => one.kind === "model" || one.kind === "gap" || (one.kind === "news" && SAID[one.what] !== undefined)), [story]);
  const earlier = Math.max(0, said.length - most);
  return (
    <ol className="flex flex-col gap-4" aria-live="polite" aria-relevant="additions">
      {earlier > 0 ? (
        <li className="flex flex-wrap items-center justify-center gap-3 text-sm text-quiet">
          <Button onClick={() => setMost(most + AT_ONCE)}>Show earlier</Button> {count(earlier)} came before these.
        </li>
      ) : null}
      {said.slice(earlier).map((one) => (
        <li key={`${one.kind} ${one.seq}`}>
          <EntryOf one={one} tools={tools} />
        </li>
      ))}
      <Making view={view} story={story} />
    </ol>
  );
}

type Tools = ReadonlyMap<string, readonly ToolStep[]>;

/** The calls of each turn, by its number. */
function byTurn(story: Story): Tools {
  const found = new Map<string, ToolStep[]>();
  for (const one of story.entries) {
    const turn = one.kind === "tool" ? /^turn (\d+)\/tool\//.exec(one.address)?.[1] : undefined;
    if (one.kind !== "tool" || turn === undefined) continue;
    const calls = found.get(turn);
    if (calls) calls.push(one);
    else found.set(turn, [one]);
  }
  return found;
}

const SAID: Record<string, { readonly who: string; readonly icon: IconName; readonly tone: string }> = {
  started: { who: "Input", icon: "user", tone: "tone-off" },
  message: { who: "Message", icon: "user", tone: "tone-off" },
  paused: { who: "Paused", icon: "pause", tone: "tone-hold" },
  forked: { who: "Forked", icon: "fork", tone: "tone-hold" },
  resumed: { who: "Resumed", icon: "play", tone: "tone-run" },
  stuck: { who: "Stuck", icon: "alert", tone: "tone-bad" },
  stop_requested: { who: "Asked to stop", icon: "stop", tone: "tone-off" },
  cancel_requested: { who: "Cancel", icon: "ban", tone: "tone-off" },
  failed: { who: "Failed", icon: "close", tone: "tone-bad" },
  cancelled: { who: "Cancelled", icon: "ban", tone: "tone-off" },
  completed: { who: "Answer", icon: "check", tone: "tone-good" },
};

function EntryOf({ one, tools }: { one: Entry; tools: Tools }) {
  switch (one.kind) {
    case "model":
      return <Turn step={one} tools={tools} />;
    case "gap":
      return (
        <Note icon="alert" tone="tone-wait">
          The server that ran it was gone; another took over after {duration(one.endedMs - one.startedMs)}. Nothing that was recorded is done again.
        </Note>
      );
    case "news":
      return <Said one={one} />;
    default:
      return null;
  }
}

function Note({ icon, tone, children }: { icon: IconName; tone: string; children: React.ReactNode }) {
  return (
    <p className={`toned ${tone} flex items-center gap-2 rounded-md px-3 py-2 text-sm`}>
      <Icon name={icon} /> <span>{children}</span>
    </p>
  );
}

function Speaker({ icon, tone, name, atMs, more, end }: { icon: IconName; tone: string; name: string; atMs: number; more?: React.ReactNode; end?: React.ReactNode }) {
  return (
    <div className="flex flex-wrap items-center gap-2.5">
      <span className={`toned ${tone} flex size-7 items-center justify-center rounded-full`}>
        <Icon name={icon} size={15} />
      </span>
      <span className="font-semibold">{name}</span>
      <span className="text-sm text-faint">
        <Ago atMs={atMs} />
      </span>
      {more}
      {end ? <span className="ml-auto">{end}</span> : null}
    </div>
  );
}

function Said({ one }: { one: News }) {
  const look = SAID[one.what] ?? { who: one.what, icon: "list" as const, tone: "tone-off" };
  return (
    <article className="flex flex-col gap-1.5">
      <Speaker icon={look.icon} tone={look.tone} name={look.who} atMs={one.startedMs} more={one.by ? <span className="text-sm text-quiet">by <Plain text={one.by} /></span> : null} />
      {one.text ? (
        <div className="card ml-9.5 p-3">
          <Markdown text={one.text} label={look.who.toLowerCase()} />
        </div>
      ) : null}
    </article>
  );
}

function Turn({ step, tools }: { step: ModelStep; tools: Tools }) {
  const turn = /^turn (\d+)\//.exec(step.address)?.[1];
  const of = tools.get(turn ?? "") ?? [];
  const unmade = step.calls.filter((call) => !of.some((one) => one.address.includes(call.id)));
  return (
    <article className="flex flex-col gap-2">
      <Speaker
        icon="spark"
        tone="tone-run"
        name={`Model${turn ? `, turn ${turn}` : ""}`}
        atMs={step.endedMs}
        more={
          <span className="text-sm text-faint">
            {step.model ? <Plain text={step.model} /> : null} · {step.from ? FROM[step.from] : <Span fromMs={step.startedMs} toMs={step.endedMs} />} · {count(step.tokens.input)} in, {count(step.tokens.output)} out
          </span>
        }
        end={<ForkButton place={modelPlace(step)} />}
      />
      <div className="ml-9.5 flex flex-col gap-2 max-sm:ml-0">
        {step.repeated > 0 ? (
          <Note icon="alert" tone="tone-wait">
            Asked {step.repeated + 1} times: a server died while the reply was under way, and that reply may have been paid for.
          </Note>
        ) : null}
        {step.reasoning ? (
          <details className="card p-3 text-quiet">
            <summary className="text-sm font-medium">Reasoning</summary>
            <div className="mt-2">
              <Markdown text={step.reasoning} label="reasoning" />
            </div>
          </details>
        ) : null}
        {step.text ? (
          <div className="card p-3">
            <Markdown text={step.text} label={`turn ${turn ?? ""}`} />
          </div>
        ) : null}
        {step.error ? (
          <Note icon="alert" tone="tone-bad">
            <Plain text={step.error} />
          </Note>
        ) : null}
        {of.map((one) => (
          <ToolCard key={one.address} step={one} />
        ))}
        {unmade.map((call, at) => (
          <details key={at} className="card p-3">
            <summary className="flex items-center gap-2 text-sm font-medium">
              <Icon name="tool" className="text-quiet" /> <Plain text={call.name} /> <Status of="step" state={of.length === step.calls.length ? "queued" : "refused"} small />
            </summary>
            <Long text={call.args} label="arguments" />
          </details>
        ))}
      </div>
    </article>
  );
}

/** Whose a step is, in a fork. */
const FROM = { origin: "taken over", edit: "edited when it was forked" } as const;

export function ToolCard({ step }: { step: ToolStep }) {
  const tries = step.attempts.length;
  const place = toolPlace(step);
  const loud = step.state === "uncertain" || step.state === "asked" || step.state === "dead";
  return (
    <details className="card group/tool" open={loud}>
      <summary className="flex flex-wrap items-center gap-2 p-3 text-sm">
        <Icon name="tool" className="text-quiet" />
        <span className="font-mono font-medium">
          <Plain text={step.tool} />
        </span>
        <Status of="step" state={step.state} small />
        {tries > 1 ? <span className="text-quiet">{tries} attempts</span> : null}
        {step.asked?.decidedMs ? (
          <span className="text-quiet">
            {step.asked.decision} by <Plain text={step.asked.by || "somebody"} />
          </span>
        ) : null}
        <span className="ml-auto text-faint">
          {step.from ? FROM[step.from] : <Span fromMs={step.startedMs} toMs={step.endedMs} />}
        </span>
        <Icon name="down" size={14} className="text-faint transition-transform group-open/tool:rotate-180" />
      </summary>
      <div className="flex flex-col gap-2 border-t border-line p-3">
        <Long text={shown(step.args)} label="arguments" />
        {step.error ? (
          <p className="toned tone-bad rounded-md px-3 py-2 text-sm">
            <Plain text={step.error} />
          </p>
        ) : null}
        {step.value !== undefined && step.value !== null ? (
          <>
            <p className="text-xs font-medium text-quiet">Result</p>
            <Long text={shown(step.value)} label="result" />
          </>
        ) : null}
        {place ? (
          <div>
            <ForkButton place={place} />
          </div>
        ) : null}
      </div>
    </details>
  );
}
