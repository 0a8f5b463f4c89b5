/** What one's company said may be done in a room, and on whose word: as sentences, and as the document that it is. */

import { useState } from "react";
import { api, taken } from "../api/client";
import { Ask } from "../design/Ask";
import { Button } from "../design/Button";
import { Icon, type IconName } from "../design/icons";
import { Section } from "../design/Section";
import { Failed, Loading } from "../design/States";
import { Ago } from "../design/Time";
import { Long, Plain } from "../text/Text";
import { type Room, useRights, useWriting } from "./data";
import { inWords, type Said, type Then } from "./rights";

export function Rights({ room }: { room: Room }) {
  const found = useRights(room.id);
  const [editing, edit] = useState(false);
  const set = useWriting(room.id, (text: string, { by }) =>
    taken(api.PUT("/v1/rooms/{room}/rights", { params: { path: { room: room.id } }, body: { document: JSON.parse(text) as Record<string, never>, by } })),
  );
  const rights = found.data;
  const said = rights ? inWords(rights.document, rights.company) : null;
  return (
    <Section
      title="Rights"
      about="What your company says may be done, and on whose word. Other companies do not see it."
      actions={
        rights ? (
          <Button icon="pencil" onClick={() => edit(true)} aria-label="Change the rights">
            Change
          </Button>
        ) : undefined
      }
    >
      {found.isPending ? (
        <Loading what="rights" />
      ) : rights === undefined || said === null ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : (
        <div className="divide-y divide-line">
          {said.rules.length > 0 ? (
            <ol aria-label="Rules, of which the first that fits counts" className="divide-y divide-line">
              {said.rules.map((one, at) => (
                <Rule key={one.name} one={one} number={at + 1} />
              ))}
            </ol>
          ) : null}
          {said.roles.length > 0 ? (
            <dl className="flex flex-col gap-1 px-4 py-3 text-sm">
              {said.roles.map(([role, people]) => (
                <div key={role} className="flex flex-wrap gap-x-2">
                  <dt className="font-medium">
                    The role <Plain text={role} />:
                  </dt>
                  <dd className="text-quiet">{people.length > 0 ? <Plain text={people.join(", ")} /> : "nobody"}</dd>
                </div>
              ))}
            </dl>
          ) : null}
          <Defaults alone={said.rules.length === 0} />
          {rights.revision > 0 ? (
            <details>
              <summary className="px-4 py-2.5 text-sm font-medium">
                As JSON: revision {rights.revision}, by <Plain text={rights.changed_by} /> <Ago atMs={rights.changed_ms} />
              </summary>
              <div className="px-4 pb-4">
                <Long text={JSON.stringify(rights.document, null, 2)} label="the document" />
              </div>
            </details>
          ) : null}
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

const LOOKS: Record<Then, { readonly word: string; readonly icon: IconName; readonly tone: string }> = {
  allow: { word: "Allowed", icon: "check", tone: "tone-good" },
  hold: { word: "Waits for a yes", icon: "hand", tone: "tone-wait" },
  refuse: { word: "Refused", icon: "ban", tone: "tone-bad" },
};

function Verdict({ then }: { then: Then | null }) {
  const { word, icon, tone } = then ? LOOKS[then] : { word: "Unknown", icon: "question" as const, tone: "tone-off" };
  return (
    <span className={`toned ${tone} inline-flex w-fit shrink-0 items-center gap-1.5 rounded-full px-2 py-px text-xs font-medium whitespace-nowrap`}>
      <Icon name={icon} size={12} /> {word}
    </span>
  );
}

function Rule({ one, number }: { one: Said; number: number }) {
  return (
    <li className="flex flex-wrap items-baseline gap-x-3 gap-y-1 px-4 py-2.5 text-sm">
      <span className="w-5 text-right text-xs text-quiet tabular-nums">{number}.</span>
      <Verdict then={one.then} />
      <span className="min-w-0 flex-1 basis-64">
        <Plain text={one.what} />
        {one.whose ? (
          <span className="block text-quiet">
            yes of <Plain text={one.whose} />
          </span>
        ) : null}
        {one.unknown.length > 0 ? (
          <span className="block text-bad">
            and what this page cannot say (see the JSON): <Plain text={one.unknown.join(", ")} />
          </span>
        ) : null}
      </span>
      <span className="font-mono text-xs text-quiet">
        <Plain text={one.name} />
      </span>
    </li>
  );
}

/** As `core/rights.py` has them. */
const DEFAULTS: readonly (readonly [Then, string])[] = [
  ["hold", "an agent of yours, after it was shown text of others, of a file or of a tool, opens a task for another company, cancels one of your company's, calls a tool or shares a file"],
  ["hold", "an agent that was shown a line of yours with readers tells it to more than these"],
  ["allow", "anything else that an agent does"],
];

function Defaults({ alone }: { alone: boolean }) {
  return (
    <details open={alone}>
      <summary className="px-4 py-2.5 text-sm font-medium">{alone ? "Your company said nothing, so this holds" : "Where no rule fits"}</summary>
      <ul className="flex flex-col gap-2 px-4 pb-3 text-sm text-quiet">
        {DEFAULTS.map(([then, what]) => (
          <li key={what} className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
            <Verdict then={then} />
            <span className="min-w-0 flex-1 basis-64">{what}</span>
          </li>
        ))}
      </ul>
    </details>
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
