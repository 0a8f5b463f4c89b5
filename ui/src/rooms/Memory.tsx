/** The lines that a room keeps, as far as one's company may read them. */

import { type FormEvent, useState } from "react";
import { api, taken } from "../api/client";
import { Button } from "../design/Button";
import { Section } from "../design/Section";
import { Empty, Failed, Loading, Refusal } from "../design/States";
import { Ago } from "../design/Time";
import { Plain } from "../text/Text";
import { type Line, type Room, useHeld, useWriting } from "./data";
import { More } from "./More";
import { kindOf } from "./stories";
import { Author, Words } from "./Whose";

const EVERYBODY = "*";

export function Memory({ room }: { room: Room }) {
  const found = useHeld(room, "memory");
  return (
    <div className="flex flex-col gap-3">
      <Section title="Memory" about="What agents are shown at each wake. Lines that other companies keep to themselves are not among them.">
        {found.isPending ? (
          <Loading what="memory" />
        ) : found.data === undefined ? (
          <Failed error={found.error} again={() => void found.refetch()} />
        ) : found.items.length === 0 ? (
          <Empty icon="file" title={found.hasNextPage ? "Nothing lately" : "Nothing is kept"} />
        ) : (
          <ul className="divide-y divide-line">
            {[...found.items].reverse().map((one) => (
              <One key={one.id} line={one} kind={kindOf(room.members ?? [], one)} />
            ))}
          </ul>
        )}
        <More of={found} />
      </Section>
      <Keep room={room} />
    </div>
  );
}

function One({ line, kind }: { line: Line; kind: string }) {
  const open = line.readers.includes(EVERYBODY);
  return (
    <li id={line.id} className="flex flex-col gap-1 px-4 py-3">
      <header className="flex flex-wrap items-center gap-x-3 gap-y-1 text-sm">
        <Author company={line.company} author={line.author} kind={kind} steered={line.steered_by} />
        <span className={open ? "text-quiet" : "toned tone-hold rounded-sm px-1.5 text-xs"}>
          {open ? "for all in the room" : <>for <Plain text={[line.company, ...line.readers.filter((one) => one !== line.company)].join(", ")} /> alone</>}
        </span>
        <span className="text-faint">
          <Ago atMs={line.at_ms} />
        </span>
      </header>
      <Words company={line.company} text={line.text} label={`the line of ${line.author}`} />
    </li>
  );
}

function Keep({ room }: { room: Room }) {
  const companies = (room.members ?? []).filter((one) => one.name === "").map((one) => one.company);
  const [text, type] = useState("");
  const [readers, read] = useState(EVERYBODY);
  const keep = useWriting(room.id, (given: { text: string; readers: string }, more) =>
    taken(api.POST("/v1/rooms/{room}/memory", { params: { path: { room: room.id } }, body: { text: given.text, readers: given.readers ? [given.readers] : [], source: "", ...more } })),
  );
  const send = (event: FormEvent): void => {
    event.preventDefault();
    if (text.trim()) keep.mutate({ text, readers }, { onSuccess: () => type("") });
  };
  return (
    <form onSubmit={send} aria-label="Keep a line" className="card flex flex-col gap-2 p-3">
      <div className="flex flex-wrap items-center gap-2">
        <input aria-label="A line to keep" placeholder="A line to keep" maxLength={32_000} className="field min-w-0 flex-1 basis-56" value={text} onChange={(event) => type(event.target.value)} />
        <label className="flex items-center gap-1.5 text-sm text-quiet">
          for
          <select className="field max-w-48 text-sm" value={readers} onChange={(event) => read(event.target.value)}>
            <option value={EVERYBODY}>all in the room</option>
            <option value="">your company alone</option>
            {companies.map((name) => (
              <option key={name} value={name}>
                yours and {name}
              </option>
            ))}
          </select>
        </label>
        <Button look="main" icon="plus" type="submit" busy={keep.isPending} disabled={!text.trim()}>
          Keep it
        </Button>
      </div>
      <Refusal error={keep.error} />
    </form>
  );
}
