/** Acts of agents that wait for one's company's yes. */

import { useState } from "react";
import type { Approval } from "../api/client";
import { Card } from "../approvals/Card";
import { useSeeing } from "../approvals/data";
import { Icon } from "../design/icons";
import { Plain } from "../text/Text";
import { plural } from "../text/time";

/** What the name of an act begins with, where it is shown to whoever is asked. */
const ACT = "room.";

const NONE: readonly Approval[] = [];

export function holdsOf(approvals: readonly Approval[], room: string): Approval[] {
  return approvals.filter((one) => one.tool.startsWith(ACT) && one.args["room"] === room);
}

export function Holds({ holds, open }: { holds: readonly Approval[]; open: boolean }) {
  const [told, tell] = useState("");
  useSeeing(open ? holds : NONE);
  return (
    <section aria-label="What waits for a yes">
      <details open={open}>
        <summary className="toned tone-wait flex list-none items-center gap-2 rounded-md px-3 py-2">
          <Icon name="hand" />
          <h2 className="font-semibold">
            {plural(holds.length, "act")} {holds.length === 1 ? "waits" : "wait"} for a yes of your company
          </h2>
          <Icon name="down" size={14} className="ml-auto" />
        </summary>
        <div className="mt-3 flex flex-col gap-3">
          {told ? (
            <p role="alert" className="toned tone-wait rounded-md px-3 py-2 text-sm">
              <Plain text={told} />
            </p>
          ) : null}
          <ul className="flex flex-col gap-3">
            {holds.map((one) => (
              <li key={one.id}>
                <Card one={one} before={null} chosen={false} refused={tell} />
              </li>
            ))}
          </ul>
        </div>
      </details>
    </section>
  );
}
