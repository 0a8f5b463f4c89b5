/** Who was woken by what, and what each of them did in the room. */

import { useState } from "react";
import { Link } from "wouter";
import { Button } from "../design/Button";
import { Section } from "../design/Section";
import { Empty, Failed, Loading } from "../design/States";
import { Status } from "../design/Status";
import { Ago } from "../design/Time";
import { Plain } from "../text/Text";
import { type Room, useHeld, useLedger, useWakes, type Wake } from "./data";
import { type Act, actOf, doneBy } from "./stories";
import { Author } from "./Whose";

const AT_ONCE = 50;

export function Wakes({ room }: { room: Room }) {
  const found = useWakes(room.id);
  const acts = (useLedger(room).data ?? []).map(actOf);
  const messages = useHeld(room, "messages").items;
  const tasks = useHeld(room, "tasks").items;
  const texts = new Map([...messages.map((one) => [one.id, one.text] as const), ...tasks.map((one) => [one.id, one.title] as const)]);
  const [most, more] = useState(AT_ONCE);
  const wakes = found.data?.items ?? [];
  return (
    <Section title="Wakes" about="Each message or task that is meant for an agent wakes it once. How those of other companies ended is theirs to know.">
      {found.isPending ? (
        <Loading what="wakes" />
      ) : found.data === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : wakes.length === 0 ? (
        <Empty icon="agent" title="No agent was woken yet" />
      ) : (
        <ul className="divide-y divide-line">
          {wakes.slice(0, most).map((one) => (
            <One key={`${one.company}/${one.agent} ${one.cause}`} wake={one} cause={texts.get(one.cause) ?? ""} done={doneBy(one, acts)} />
          ))}
        </ul>
      )}
      {wakes.length > most ? (
        <div className="p-2 text-center">
          <Button onClick={() => more(most + AT_ONCE)}>Show more</Button>
        </div>
      ) : null}
    </Section>
  );
}

function One({ wake, cause, done }: { wake: Wake; cause: string; done: readonly Act[] }) {
  return (
    <li className="flex flex-col gap-2 px-4 py-3 text-sm">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <Author company={wake.company} author={wake.agent} kind="agent" />
        {wake.state ? <Status state={wake.state} small /> : null}
        <span className="text-quiet">
          <Ago atMs={wake.at_ms} />
        </span>
        {wake.execution ? (
          <Link href={`/executions/${wake.execution}`} className="text-accent underline underline-offset-2">
            its execution
          </Link>
        ) : null}
      </div>
      <p className="line-clamp-2 text-quiet">
        woken by: <Plain text={cause.slice(0, 300) || wake.cause} />
      </p>
      {done.length > 0 ? (
        <ul aria-label="What it did" className="flex flex-wrap gap-1.5">
          {done.map((act) => (
            <li key={act.seq} className={`toned tone-${TONES[act.what] ?? "off"} rounded-full px-2 py-px text-xs`}>
              {act.what}
              {act.decision && act.decision !== "allowed" && act.decision !== act.what ? <span> ({act.decision})</span> : null}
              {typeof act.more["why"] === "string" ? (
                <span>
                  {" "}
                  <Plain text={act.more["why"].slice(0, 120)} />
                </span>
              ) : null}
            </li>
          ))}
        </ul>
      ) : (
        <p className="text-faint">nothing that is recorded lately</p>
      )}
    </li>
  );
}

const TONES: Record<string, string> = { posted: "good", remembered: "good", "task opened": "good", "task changed": "good", "file put": "good", held: "wait", refused: "bad", "wake halted": "hold", "wake ended": "off" };
