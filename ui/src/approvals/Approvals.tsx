/** The calls that wait for a person: what exactly would be done, and the four answers. */

import { useEffect, useState } from "react";
import { Link, useLocation } from "wouter";
import type { Approval } from "../api/client";
import { Icon } from "../design/icons";
import { Empty, Failed, Loading } from "../design/States";
import { Status } from "../design/Status";
import { Ago } from "../design/Time";
import { useMyName } from "../design/settings";
import { Button } from "../design/Button";
import { Id } from "../text/Copy";
import { Plain } from "../text/Text";
import { Card } from "./Card";
import { lastApproved, useApprovals, useDecided, useSeeing } from "./data";
import { useNotices } from "./notices";

export function Approvals({ chosen }: { chosen: string }) {
  const open = useApprovals();
  const decided = useDecided();
  const [, go] = useLocation();
  const [told, tell] = useState("");
  const waiting = open.data?.items ?? [];
  const at = Math.max(0, waiting.findIndex((one) => one.id === chosen));

  useSeeing(waiting);
  const there = waiting.some((one) => one.id === chosen);
  useEffect(() => {
    if (there) document.getElementById(chosen)?.focus(); // whoever came by its address looks at it first
  }, [chosen, there]);
  useEffect(() => {
    const step = (event: KeyboardEvent): void => {
      const typing = event.target instanceof HTMLElement && event.target.closest("input, textarea, select, [role=dialog]");
      const by = { j: 1, k: -1 }[event.key];
      const next = by === undefined || typing ? undefined : waiting[at + by];
      if (!next) return;
      go(`/approvals/${next.id}`);
      document.getElementById(next.id)?.focus();
    };
    addEventListener("keydown", step);
    return () => removeEventListener("keydown", step);
  }, [at, go, waiting]);

  return (
    <div className="mx-auto flex w-full max-w-3xl flex-col gap-4">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <h1 className="mr-auto text-xl font-semibold">Approvals</h1>
        <Notify />
        <Name />
      </div>
      {told ? (
        <p role="alert" className="toned tone-wait flex items-start gap-2 rounded-md px-3 py-2 text-sm">
          <Icon name="alert" className="mt-0.5" /> <Plain text={told} />
          <button type="button" className="ml-auto underline underline-offset-2" onClick={() => tell("")}>
            Dismiss
          </button>
        </p>
      ) : null}
      {open.isPending ? (
        <Loading what="approvals" />
      ) : open.data === undefined ? (
        <Failed error={open.error} again={() => void open.refetch()} />
      ) : waiting.length === 0 ? (
        <div className="card">
          <Empty icon="check" title="Nothing waits for you">
            When an agent wants to call a tool that asks for a person's yes, it appears here by itself.
          </Empty>
        </div>
      ) : (
        <ul className="flex flex-col gap-4" aria-label="Waiting for a decision">
          {waiting.map((one) => (
            <li key={one.id}>
              <Card one={one} before={lastApproved(decided, one)} chosen={one.id === chosen} refused={tell} />
            </li>
          ))}
        </ul>
      )}
      <Recent decided={decided} />
    </div>
  );
}

/** Whether the system tells of new ones while nobody looks. The browser asks only when somebody wants it. */
function Notify() {
  const [notices, turn] = useNotices();
  if (notices === "none") return null;
  if (notices === "blocked") return <p className="text-sm text-quiet">This browser blocks notifications of this page.</p>;
  return (
    <Button icon={notices === "on" ? "check" : "bell"} aria-pressed={notices === "on"} onClick={() => turn(notices !== "on")}>
      Notify me
    </Button>
  );
}

/** Rules about people are about names; the admin key speaks for whoever is named. */
function Name() {
  const [name, setName] = useMyName();
  return (
    <label className="flex items-center gap-2 text-sm text-quiet">
      You decide as
      <input className="field w-40" value={name} placeholder="the key's name" onChange={(event) => setName(event.target.value)} autoComplete="name" />
    </label>
  );
}

function Recent({ decided }: { decided: readonly Approval[] }) {
  if (decided.length === 0) return null;
  return (
    <section aria-labelledby="recent" className="flex flex-col gap-2">
      <h2 id="recent" className="text-sm font-semibold text-quiet">
        Decided lately
      </h2>
      <ul className="card divide-y divide-line">
        {decided.slice(0, 10).map((one) => (
          <li key={one.id} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2.5 text-sm">
            <Status of="step" state={one.state} small />
            <span className="font-mono">
              <Plain text={one.tool} />
            </span>
            <span className="text-quiet">
              {one.decision} by <Plain text={one.decided_by || "somebody"} />
              {one.reason ? (
                <>
                  : <Plain text={one.reason} />
                </>
              ) : null}
            </span>
            <span className="ml-auto flex items-center gap-3 text-faint">
              {one.decided_ms ? <Ago atMs={one.decided_ms} /> : null}
              <Link href={`/executions/${one.execution}`} className="text-accent underline underline-offset-2">
                <Id id={one.execution} short />
              </Link>
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
