/** Who is in a room, who is stopped, and what one's company said may be done. */

import { type FormEvent, useState } from "react";
import { api, taken } from "../api/client";
import { Ask } from "../design/Ask";
import { Button } from "../design/Button";
import { Icon } from "../design/icons";
import { Section } from "../design/Section";
import { Failed, Loading, Refusal } from "../design/States";
import { Ago } from "../design/Time";
import { Long, Plain } from "../text/Text";
import { type Room, useMyCompany, useRights, useStops, useWriting } from "./data";
import { type Company as Of, companies } from "./stories";
import { Company } from "./Whose";

const THE_ROOM = "the room";

export function Members({ room }: { room: Room }) {
  const own = useMyCompany();
  const stops = useStops(room.id);
  const stopped = new Set((stops.data?.items ?? []).map((one) => one.member));
  const host = room.host === own;
  return (
    <div className="flex flex-col gap-3">
      <Section title="Members" actions={host ? <Invite room={room} /> : undefined}>
        <ul className="divide-y divide-line">
          {companies(room.members ?? [], own, room.host).map((one) => (
            <One key={one.name} room={room} of={one} own={own} host={host} stopped={stopped} />
          ))}
        </ul>
      </Section>
      <Stops room={room} host={host} own={own} />
      <Rights room={room} />
    </div>
  );
}

type OneProps = { room: Room; of: Of; own: string; host: boolean; stopped: ReadonlySet<string> };

function One({ room, of, own, host, stopped }: OneProps) {
  const may = host || of.name === own;
  return (
    <li className="flex flex-col gap-2 px-4 py-3 text-sm">
      <div className="flex flex-wrap items-center gap-2">
        <Company name={of.name} own={own} />
        {of.name === room.host ? <span className="text-quiet">host</span> : null}
        {of.state === "joined" ? null : <span className="text-quiet">{of.state}</span>}
        {may && of.state === "joined" && !stopped.has(of.name) ? <StopIt room={room} member={of.name} /> : null}
      </div>
      {of.agents.length > 0 ? (
        <ul className="flex flex-col gap-1 pl-4">
          {of.agents.map((agent) => (
            <li key={agent.name} className="flex flex-wrap items-center gap-x-3 gap-y-1">
              <span className="inline-flex items-center gap-2 font-medium">
                <Icon name="agent" size={14} className="text-quiet" /> <Plain text={agent.name} />
              </span>
              <span className="text-quiet">{agent.on_crash === "abandon" ? "is not carried on when its server dies" : "is carried on when its server dies"}</span>
              {may && !stopped.has(`${of.name}/${agent.name}`) ? <StopIt room={room} member={`${of.name}/${agent.name}`} /> : null}
            </li>
          ))}
        </ul>
      ) : null}
    </li>
  );
}

function StopIt({ room, member }: { room: Room; member: string }) {
  const [asking, ask] = useState(false);
  const stop = useWriting(room.id, (reason: string, { by }) => taken(api.POST("/v1/rooms/{room}/stop", { params: { path: { room: room.id } }, body: { member, reason, by } })));
  const name = member || THE_ROOM;
  return (
    <>
      <Button look="bare" icon="stop" onClick={() => ask(true)} aria-label={`Stop ${name}`}>
        Stop
      </Button>
      <Ask
        open={asking}
        title={`Stop ${name}?`}
        about="Nothing of theirs is written in the room from then on, and their models are not asked. What is under way is paused, and goes on when the stop is lifted."
        field="Why"
        verb="Stop"
        danger
        busy={stop.isPending}
        error={stop.error}
        close={() => ask(false)}
        done={(reason) => stop.mutate(reason, { onSuccess: () => ask(false) })}
      />
    </>
  );
}

function Stops({ room, host, own }: { room: Room; host: boolean; own: string }) {
  const found = useStops(room.id);
  const go = useWriting(room.id, (member: string, { by }) => taken(api.POST("/v1/rooms/{room}/start", { params: { path: { room: room.id } }, body: { member, by } })));
  const stops = found.data?.items ?? [];
  const all = stops.some((one) => one.member === THE_ROOM);
  return (
    <Section title="Stopped" about="Who does nothing here for now." actions={host && !all ? <StopIt room={room} member="" /> : undefined}>
      {found.data === undefined && found.error ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : stops.length === 0 ? (
        <p className="px-4 py-3 text-sm text-quiet">Nobody is.</p>
      ) : (
        <ul className="divide-y divide-line">
          {stops.map((one) => (
            <li key={one.member} className="flex flex-wrap items-center justify-between gap-2 px-4 py-3 text-sm">
              <span>
                <span className="font-medium">
                  <Plain text={one.member} />
                </span>{" "}
                <span className="text-quiet">
                  by <Plain text={one.by} /> <Ago atMs={one.at_ms} />
                  {one.reason ? (
                    <>
                      : <Plain text={one.reason} />
                    </>
                  ) : null}
                </span>
              </span>
              {host || one.member === own || one.member.startsWith(`${own}/`) ? (
                <Button icon="play" busy={go.isPending && go.variables === one.member} onClick={() => go.mutate(one.member === THE_ROOM ? "" : one.member)} aria-label={`Let ${one.member} go on`}>
                  Go on
                </Button>
              ) : null}
            </li>
          ))}
        </ul>
      )}
      <Refusal error={go.error} />
    </Section>
  );
}

function Rights({ room }: { room: Room }) {
  const found = useRights(room.id);
  const [editing, edit] = useState(false);
  const set = useWriting(room.id, (text: string, { by }) =>
    taken(api.PUT("/v1/rooms/{room}/rights", { params: { path: { room: room.id } }, body: { document: JSON.parse(text) as Record<string, never>, by } })),
  );
  const rights = found.data;
  return (
    <Section
      title="Rights"
      about="What your company says may be done, and on whose word. Other companies do not see it."
      actions={
        rights ? (
          <Button icon="pencil" onClick={() => edit(true)}>
            Change
          </Button>
        ) : undefined
      }
    >
      {found.isPending ? (
        <Loading what="rights" />
      ) : rights === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : rights.revision === 0 ? (
        <p className="px-4 py-3 text-sm text-quiet">Your company said nothing, so the defaults hold: what binds it, or would give its lines away, waits for its yes where others' text steered an agent; all else is allowed.</p>
      ) : (
        <div className="flex flex-col gap-2 p-4">
          <p className="text-sm text-quiet">
            Revision {rights.revision}, by <Plain text={rights.changed_by} /> <Ago atMs={rights.changed_ms} />
          </p>
          <Long text={JSON.stringify(rights.document, null, 2)} label="the document" />
        </div>
      )}
      <Ask
        open={editing}
        title="Change the rights"
        about="Rules in order, of which the first that fits counts, and roles. It takes the place of what was said before, and counts from the next act on."
        field="Rights, as JSON"
        given={JSON.stringify(rights && rights.revision > 0 ? rights.document : { rules: [], roles: {} }, null, 2)}
        mono
        verb="Set them"
        busy={set.isPending}
        error={set.error}
        problem={problem}
        close={() => edit(false)}
        done={(text) => set.mutate(text, { onSuccess: () => edit(false) })}
      />
    </Section>
  );
}

function problem(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? "" : "Rights are a JSON object with rules and roles.";
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : "it cannot be read"}.`;
  }
}

function Invite({ room }: { room: Room }) {
  const [company, type] = useState("");
  const invite = useWriting(room.id, (name: string, { by }) => taken(api.POST("/v1/rooms/{room}/invite", { params: { path: { room: room.id } }, body: { company: name, by } })));
  const send = (event: FormEvent): void => {
    event.preventDefault();
    if (company.trim()) invite.mutate(company.trim(), { onSuccess: () => type("") });
  };
  return (
    <form onSubmit={send} className="flex flex-wrap items-center gap-2">
      <input aria-label="A company to invite" placeholder="A company" maxLength={200} className="field w-40 text-sm" value={company} onChange={(event) => type(event.target.value)} />
      <Button icon="plus" type="submit" busy={invite.isPending} disabled={!company.trim()}>
        Invite
      </Button>
      <Refusal error={invite.error} />
    </form>
  );
}
