/** One call that waits: the exact arguments, what differs from the last one that was agreed to, and the answers. */

import { useState } from "react";
import { Link } from "wouter";
import type { Approval } from "../api/client";
import { Ask } from "../design/Ask";
import { Button } from "../design/Button";
import { Icon } from "../design/icons";
import { Refusal } from "../design/States";
import { Ago } from "../design/Time";
import { useMyName } from "../design/settings";
import { shown } from "../log/event";
import { Id } from "../text/Copy";
import { Long, Plain } from "../text/Text";
import { changed, problem } from "./args";
import { type Verb, useDecide } from "./data";

type Props = { one: Approval; before: Approval | null; chosen: boolean; refused: (why: string) => void };

export function Card({ one, before, chosen, refused }: Props) {
  const [name] = useMyName();
  const [asking, ask] = useState<Verb | null>(null);
  // An agent's act in a room: maybe another company's, of which nothing is edited, and which nobody answers in its place.
  const act = one.tool.startsWith("room.");
  const decide = useDecide(one, name, refused);
  const answer = (verb: Verb, more: { reason?: string; args?: Record<string, unknown>; answer?: string } = {}): void =>
    decide.mutate({ verb, ...more }, { onSuccess: () => ask(null) });
  return (
    <article id={one.id} tabIndex={-1} data-approval={one.id} aria-label={`${one.tool}, asked by ${one.agent}`} className={`card flex flex-col gap-4 p-4 ${chosen ? "ring-2 ring-accent" : ""}`}>
      <header className="flex flex-wrap items-start justify-between gap-2">
        <div>
          <h2 className="text-lg font-semibold">
            <Plain text={act ? String(one.args["by"] ?? one.agent) : one.agent} /> wants to {act ? (ACTS[one.tool] ?? "act: ") : "call "}
            {act && ACTS[one.tool] ? null : (
              <span className="font-mono">
                <Plain text={one.tool} />
              </span>
            )}
          </h2>
          <p className="flex flex-wrap items-center gap-x-2 text-sm text-quiet">
            asked <Ago atMs={one.opened_ms} /> in
            {act ? (
              <Link href={`/rooms/${String(one.args["room"])}`} className="text-accent underline underline-offset-2">
                its room
              </Link>
            ) : (
              <Link href={`/executions/${one.execution}`} className="text-accent underline underline-offset-2">
                <Id id={one.execution} short />
              </Link>
            )}
          </p>
        </div>
        <Rules one={one} />
      </header>
      <Arguments one={one} before={before} aside={act ? ASIDE : []} />
      {asking === null ? <Refusal error={decide.error} /> : null}
      <div className="flex flex-wrap gap-2 max-sm:grid max-sm:grid-cols-2">
        <Button look="main" icon="check" busy={decide.isPending && decide.variables.verb === "approve"} onClick={() => answer("approve")}>
          Approve
        </Button>
        <Button look="danger" icon="close" onClick={() => ask("reject")}>
          Reject
        </Button>
        {act ? null : (
          <>
            <Button icon="pencil" onClick={() => ask("edit")}>
              Edit
            </Button>
            <Button icon="reply" onClick={() => ask("respond")}>
              Respond
            </Button>
          </>
        )}
      </div>
      <Ask
        open={asking === "reject"}
        title={`Reject ${one.tool}?`}
        about="The call is not made. The model reads your reason, and goes on without it."
        field="Reason"
        verb="Reject it"
        danger
        busy={decide.isPending}
        error={decide.error}
        close={() => ask(null)}
        done={(reason) => answer("reject", { reason })}
      />
      <Ask
        open={asking === "edit"}
        title={`Call ${one.tool} with other arguments`}
        about="The tool is called with what stands here. The model is told what you changed. The server checks it against the tool's schema."
        field="Arguments, as JSON"
        given={JSON.stringify(one.args, null, 2)}
        mono
        verb="Approve these"
        busy={decide.isPending}
        error={decide.error}
        problem={problem}
        close={() => ask(null)}
        done={(text) => answer("edit", { args: JSON.parse(text) as Record<string, unknown> })}
      />
      <Ask
        open={asking === "respond"}
        title={`Answer instead of ${one.tool}`}
        about="The tool is not called; the model reads your words as its result."
        field="Answer"
        verb="Answer"
        needed
        busy={decide.isPending}
        error={decide.error}
        close={() => ask(null)}
        done={(text) => answer("respond", { answer: text })}
      />
    </article>
  );
}

/** Acts in rooms, in words. */
const ACTS: Record<string, string> = { "room.Post": "say something", "room.OpenTask": "open a task", "room.ChangeTask": "change a task", "room.Remember": "keep a line" };
/** What an approval of an act is bound to beside what would be done: where, woken by what, under which rule. */
const ASIDE = ["room", "by", "woken_by", "asked_by", "thread", "key", "hold"];

function Rules({ one }: { one: Approval }) {
  const approved = one.approved ?? [];
  return (
    <ul className="flex flex-col items-end gap-1 text-sm text-quiet max-sm:items-start">
      {one.expires_ms ? (
        <li className="toned tone-wait flex items-center gap-1.5 rounded-full px-2.5">
          <Icon name="clock" size={13} /> expires <Ago atMs={one.expires_ms} />
        </li>
      ) : null}
      {(one.quorum ?? 1) > 1 ? (
        <li>
          {approved.length} of {one.quorum} have agreed{approved.length > 0 ? `: ${approved.join(", ")}` : ""}
        </li>
      ) : null}
      {(one.approvers ?? []).length > 0 ? <li>may decide: {(one.approvers ?? []).join(", ")}</li> : null}
    </ul>
  );
}

function Arguments({ one, before, aside }: { one: Approval; before: Approval | null; aside: readonly string[] }) {
  const differs = before ? changed(before.args, one.args) : null;
  const named = Object.entries(one.args);
  return (
    <div className="flex flex-col gap-2">
      <p className="text-xs font-medium text-quiet">Exactly {aside.length > 0 ? "this" : "these arguments"}{one.edited ? ", as somebody edited them" : ""}</p>
      <Table before={before} differs={differs} named={named.filter(([name]) => !aside.includes(name))} />
      {aside.length > 0 ? (
        <details>
          <summary className="text-sm text-accent">Where, woken by what, and under which rule</summary>
          <div className="mt-2">
            <Table before={before} differs={differs} named={named.filter(([name]) => aside.includes(name))} />
          </div>
        </details>
      ) : null}
      {before && before.decided_ms ? (
        <p className="text-sm text-quiet">
          {differs && differs.length > 0 ? "Differs from" : "The same as"} what {before.decided_by || "somebody"} agreed to <Ago atMs={before.decided_ms} />.
        </p>
      ) : null}
    </div>
  );
}

type TableProps = { before: Approval | null; differs: readonly string[] | null; named: readonly (readonly [string, unknown])[] };

function Table({ before, differs, named }: TableProps) {
  return (
    <dl className="flex flex-col divide-y divide-line overflow-hidden rounded-md border border-line">
      {named.map(([name, value]) => (
        <div key={name} className="grid gap-x-4 gap-y-1 px-3 py-2 sm:grid-cols-[10rem_1fr]">
          <dt className="flex items-baseline gap-1.5 font-mono text-sm text-quiet">
            <Plain text={name} />
            {differs?.includes(name) ? <span className="toned tone-wait rounded-sm px-1 text-xs">differs</span> : null}
          </dt>
          <dd className="min-w-0 font-mono text-sm">
            {brief(value).length > 400 || brief(value).includes("\n") ? <Long text={brief(value)} label={name} /> : <Plain text={brief(value)} />}
            {differs?.includes(name) && before && name in before.args ? (
              <p className="mt-1 text-xs text-quiet">
                last time: <Plain text={shown(before.args[name]).slice(0, 300)} />
              </p>
            ) : null}
          </dd>
        </div>
      ))}
      {named.length === 0 ? <p className="px-3 py-2 text-quiet">none</p> : null}
    </dl>
  );
}

const ONE_LINE = 100;

/** A value as it is, on one line where it fits there. */
function brief(value: unknown): string {
  if (typeof value === "string") return value;
  const line = JSON.stringify(value) ?? "";
  return line.length <= ONE_LINE ? line : shown(value);
}
