/** Who is in a room, who is stopped, what may be spent, and what one's company said may be done. */

import { type FormEvent, useState } from "react";
import { api, taken } from "../api/client";
import { Ask } from "../design/Ask";
import { Button } from "../design/Button";
import { Icon } from "../design/icons";
import { Section } from "../design/Section";
import { Failed, Refusal } from "../design/States";
import { Ago } from "../design/Time";
import { Plain } from "../text/Text";
import { Budgets } from "./Budgets";
import { type Room, useMyCompany, useStops, useWriting } from "./data";
import { Rights } from "./Rights";
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
      <Budgets room={room} />
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
        {may && of.state === "joined" && !stopped.has(of.name) ? (
          <span className="ml-auto">
            <StopIt room={room} member={of.name} />
          </span>
        ) : null}
      </div>
      {of.agents.length > 0 ? (
        <ul className="flex flex-col gap-1 pl-4">
          {of.agents.map((agent) => (
            <li key={agent.name} className="flex items-center gap-3">
              <span className="flex min-w-0 flex-1 flex-wrap items-center gap-x-3">
                <span className="inline-flex items-center gap-2 font-medium">
                  <Icon name="agent" size={14} className="text-quiet" /> <Plain text={agent.name} />
                </span>
                <span className="text-quiet">{agent.on_crash === "abandon" ? "is not carried on when its server dies" : "is carried on when its server dies"}</span>
              </span>
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
        Stop{member ? "" : " the room"}
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
