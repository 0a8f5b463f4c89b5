/** What was asked of whom in a room, and what became of it. */

import { type FormEvent, useState } from "react";
import { api, taken } from "../api/client";
import { Ask } from "../design/Ask";
import { Button } from "../design/Button";
import { Icon, type IconName } from "../design/icons";
import { Section } from "../design/Section";
import { Empty, Failed, Loading, Refusal } from "../design/States";
import type { Tone } from "../design/Status";
import { Ago } from "../design/Time";
import { Plain } from "../text/Text";
import { type Room, type RoomTask, useHeld, useMyCompany, useWriting, type Verb } from "./data";
import { More } from "./More";
import { addresses, kindOf } from "./stories";
import { Author, Words } from "./Whose";

const LOOKS: Record<string, { word: string; icon: IconName; tone: Tone }> = {
  open: { word: "Open", icon: "clock", tone: "wait" },
  claimed: { word: "Claimed", icon: "spinner", tone: "run" },
  done: { word: "Done", icon: "check", tone: "good" },
  declined: { word: "Declined", icon: "ban", tone: "bad" },
  cancelled: { word: "Cancelled", icon: "ban", tone: "off" },
};

export function RoomTasks({ room }: { room: Room }) {
  const found = useHeld(room, "tasks");
  const [open, onlyOpen] = useState(false);
  const shown = [...found.items].reverse().filter((one) => !open || one.state === "open" || one.state === "claimed");
  const actions = (
    <label className="flex min-h-8 items-center gap-2 text-sm text-quiet">
      <input type="checkbox" className="size-4 accent-accent-fill" checked={open} onChange={(event) => onlyOpen(event.target.checked)} /> Only those that are not closed
    </label>
  );
  return (
    <div className="flex flex-col gap-3">
      <Section title="Tasks" actions={actions}>
        {found.isPending ? (
          <Loading what="tasks" />
        ) : found.data === undefined ? (
          <Failed error={found.error} again={() => void found.refetch()} />
        ) : shown.length === 0 ? (
          <Empty icon="list" title={found.hasNextPage ? "No task lately" : "No task is here"} />
        ) : (
          <ul className="divide-y divide-line">
            {shown.map((one) => (
              <One key={one.id} room={room} task={one} />
            ))}
          </ul>
        )}
        <More of={found} />
      </Section>
      <AskFor room={room} />
    </div>
  );
}

function One({ room, task }: { room: Room; task: RoomTask }) {
  const own = useMyCompany();
  const look = LOOKS[task.state] ?? { word: task.state, icon: "question" as const, tone: "off" as const };
  const [asking, ask] = useState<Verb | null>(null);
  const change = useWriting(room.id, ({ verb, result }: { verb: Verb; result: string }, { by }) =>
    taken(api.POST("/v1/rooms/{room}/tasks/{task}", { params: { path: { room: room.id, task: task.id } }, body: { verb, result, by } })),
  );
  const [company] = task.to.split("/");
  const closed = task.state !== "open" && task.state !== "claimed";
  const verbs: Verb[] = closed ? [] : [...(company === own ? [task.state === "open" ? ("claim" as const) : ("release" as const), "complete" as const, "decline" as const] : []), ...(task.company === own ? ["cancel" as const] : [])];
  const press = (verb: Verb): void => (verb === "claim" || verb === "release" ? change.mutate({ verb, result: "" }) : ask(verb));
  return (
    <li id={task.id} className="flex flex-col gap-2 px-4 py-3">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1 text-sm">
        <span className={`toned tone-${look.tone} inline-flex items-center gap-1.5 rounded-full px-2 py-px text-xs font-medium`}>
          <Icon name={look.icon} size={12} /> {look.word}
        </span>
        <Author company={task.company} author={task.author} kind={kindOf(room.members ?? [], task)} steered={task.steered_by} />
        <span className="text-quiet">
          asks <Plain text={task.to} />, <Ago atMs={task.opened_ms} />
        </span>
      </div>
      <Words company={task.company} text={task.title} label={`the task of ${task.author}`} />
      {task.holder ? (
        <p className="text-sm text-quiet">
          {look.word} by <Plain text={task.holder} /> <Ago atMs={task.changed_ms} />
        </p>
      ) : null}
      {task.result ? <Words company={company ?? ""} text={task.result} label="its result" /> : null}
      <Refusal error={asking ? null : change.error} />
      {verbs.length > 0 ? (
        <div className="flex flex-wrap gap-2">
          {verbs.map((verb) => (
            <Button key={verb} look={verb === "decline" || verb === "cancel" ? "danger" : "plain"} busy={change.isPending && change.variables.verb === verb} onClick={() => press(verb)}>
              {WORDS[verb]}
            </Button>
          ))}
        </div>
      ) : null}
      <Ask
        open={asking !== null}
        title={asking ? `${WORDS[asking]}?` : ""}
        about="All companies in the room can read it."
        field={asking === "complete" ? "What came of it" : "Why"}
        verb={asking ? WORDS[asking] : ""}
        danger={asking !== "complete"}
        busy={change.isPending}
        error={change.error}
        close={() => ask(null)}
        done={(result) => asking && change.mutate({ verb: asking, result }, { onSuccess: () => ask(null) })}
      />
    </li>
  );
}

const WORDS: Record<Verb, string> = { claim: "Claim", release: "Release", complete: "Complete", decline: "Decline", cancel: "Cancel" };

function AskFor({ room }: { room: Room }) {
  const members = addresses(room.members ?? []);
  const [title, type] = useState("");
  const [to, address] = useState("");
  const open = useWriting(room.id, (given: { title: string; to: string }, more) =>
    taken(api.POST("/v1/rooms/{room}/tasks", { params: { path: { room: room.id } }, body: { ...given, thread: "", ...more } })),
  );
  const send = (event: FormEvent): void => {
    event.preventDefault();
    const target = to || members[0];
    if (title.trim() && target) open.mutate({ title, to: target }, { onSuccess: () => type("") });
  };
  return (
    <form onSubmit={send} aria-label="Ask for something" className="card flex flex-col gap-2 p-3">
      <div className="flex flex-wrap items-center gap-2">
        <label className="flex items-center gap-1.5 text-sm text-quiet">
          Ask
          <select className="field max-w-56 text-sm" value={to || members[0]} onChange={(event) => address(event.target.value)}>
            {members.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <input aria-label="What is to be done" placeholder="What is to be done" maxLength={32_000} className="field min-w-0 flex-1 basis-56" value={title} onChange={(event) => type(event.target.value)} />
        <Button look="main" icon="plus" type="submit" busy={open.isPending} disabled={!title.trim()}>
          Open a task
        </Button>
      </div>
      <Refusal error={open.error} />
    </form>
  );
}
