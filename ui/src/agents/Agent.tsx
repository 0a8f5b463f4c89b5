/** One agent: what it is, what it was, and what changed between. */

import { useState } from "react";
import { Link } from "wouter";
import { Button } from "../design/Button";
import { Section } from "../design/Section";
import { Empty, Failed, Loading } from "../design/States";
import { EXECUTION, STATES } from "../design/Status";
import { Icon } from "../design/icons";
import { Ago, Exact } from "../design/Time";
import { Long, Plain } from "../text/Text";
import { count } from "../text/time";
import { useAgentCounts, useVersions, type Version } from "./data";
import { around, type Part, parts } from "./diff";

export function Agent({ name }: { name: string }) {
  const found = useVersions(name);
  const versions = found.data?.pages.flatMap((page) => page.items) ?? [];
  const [picked, pick] = useState<{ newer: string; older: string }>({ newer: "", older: "" });
  const at = Math.max(0, versions.findIndex((one) => one.digest === picked.newer));
  const newer = versions[at];
  const older = versions.find((one) => one.digest === picked.older) ?? versions[at + 1];
  return (
    <div className="flex flex-col gap-4">
      <div>
        <Link href="/agents" className="inline-flex items-center gap-1 text-sm text-quiet hover:text-ink">
          <Icon name="back" size={14} /> Agents
        </Link>
        <h1 className="text-xl font-semibold">
          <Plain text={name} />
        </h1>
        <States agent={name} />
      </div>
      {found.isPending ? (
        <Loading what="its versions" />
      ) : found.data === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : !newer ? (
        <div className="card">
          <Empty icon="agent" title="There is no such agent">
            No execution was ever begun with it.
          </Empty>
        </div>
      ) : (
        <>
          <Section
            title="Definition"
            about={
              <>
                Version {newer.digest.slice(0, 8)}, first run <Exact atMs={newer.created_ms} />
                {at === 0 ? ", the newest" : ""}
              </>
            }
          >
            <Definition spec={newer.spec} />
          </Section>
          <Section
            title="What changed"
            about={versions.length < 2 ? "It has had one version so far." : undefined}
            actions={
              versions.length < 2 ? undefined : (
                <div className="flex flex-wrap items-center gap-2">
                  <Pick label="From" versions={versions} value={older?.digest ?? ""} set={(digest) => pick({ newer: newer.digest, older: digest })} />
                  <Pick label="to" versions={versions} value={newer.digest} set={(digest) => pick({ newer: digest, older: older?.digest ?? "" })} />
                  {found.hasNextPage ? (
                    <Button busy={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
                      Older ones
                    </Button>
                  ) : null}
                </div>
              )
            }
          >
            {older && older.digest !== newer.digest ? <Differences older={older} newer={newer} /> : <Empty icon="check" title="Nothing to compare" />}
          </Section>
        </>
      )}
    </div>
  );
}

function States({ agent }: { agent: string }) {
  const found = useAgentCounts(agent).data;
  if (!found) return null;
  const some = STATES.filter((state) => (found.counts[state] ?? 0) > 0);
  return (
    <ul aria-label="Its executions" className="mt-2 flex flex-wrap gap-1.5">
      {some.map((state) => (
        <li key={state}>
          <Link href={`/executions?state=${state}&agent=${encodeURIComponent(agent)}`} className={`toned tone-${EXECUTION[state].tone} inline-flex min-h-7 items-center gap-1.5 rounded-full px-2.5 text-sm hover:brightness-105`}>
            <Icon name={EXECUTION[state].icon} size={13} /> {EXECUTION[state].word} <span className="tabular-nums">{many(found.counts[state] ?? 0, found.most)}</span>
          </Link>
        </li>
      ))}
    </ul>
  );
}

function many(n: number, most: number): string {
  return n >= most ? `${count(most)}+` : count(n);
}

function Pick({ label, versions, value, set }: { label: string; versions: readonly Version[]; value: string; set: (digest: string) => void }) {
  return (
    <label className="flex items-center gap-1.5 text-sm text-quiet">
      {label}
      <select className="field font-mono text-sm" value={value} onChange={(event) => set(event.target.value)}>
        {versions.map((one, at) => (
          <option key={one.digest} value={one.digest}>
            {one.digest.slice(0, 8)}
            {at === 0 ? " (newest)" : ""}
          </option>
        ))}
      </select>
    </label>
  );
}

const OWN = ["name", "kind", "model", "instructions", "tools"];

function Definition({ spec }: { spec: Version["spec"] }) {
  const inner = spec["agent"];
  const own = (typeof inner === "object" && inner !== null ? { ...spec, ...(inner as Version["spec"]) } : spec) as Record<string, unknown>;
  const tools = Array.isArray(own["tools"]) ? (own["tools"] as Record<string, unknown>[]) : [];
  const rest = Object.fromEntries(Object.entries(own).filter(([name, value]) => !OWN.includes(name) && name !== "agent" && value !== null && JSON.stringify(value) !== "{}"));
  const instructions = String(own["instructions"] ?? "");
  return (
    <div className="flex flex-col gap-4 p-4">
      {own["model"] ? (
        <p>
          <span className="text-quiet">Model</span>{" "}
          <span className="font-mono">
            <Plain text={String(own["model"])} />
          </span>
        </p>
      ) : null}
      {instructions ? (
        <div>
          <h3 className="mb-1 text-sm font-medium text-quiet">Instructions</h3>
          <Long text={instructions} label="instructions" mono={false} />
        </div>
      ) : null}
      {tools.length > 0 ? (
        <div>
          <h3 className="mb-1 text-sm font-medium text-quiet">Tools</h3>
          <ul className="divide-y divide-line overflow-hidden rounded-md border border-line">
            {tools.map((tool) => (
              <Tool key={String(tool["name"])} tool={tool} />
            ))}
          </ul>
        </div>
      ) : null}
      {Object.keys(rest).length > 0 ? (
        <div>
          <h3 className="mb-1 text-sm font-medium text-quiet">All else</h3>
          <Long text={JSON.stringify(rest, (_name, value: unknown) => value ?? undefined, 2)} label="the rest of the definition" />
        </div>
      ) : null}
    </div>
  );
}

function Tool({ tool }: { tool: Record<string, unknown> }) {
  const facts = [tool["delivery"] ? String(tool["delivery"]).replaceAll("_", " ") : "", tool["queue"] && tool["queue"] !== "default" ? `queue ${String(tool["queue"])}` : "", tool["approval_required"] ? "asks for a yes" : ""].filter(Boolean);
  return (
    <li>
      <details className="group">
        <summary className="flex flex-wrap items-baseline gap-x-3 px-3 py-2 hover:bg-hover">
          <span className="font-mono font-medium">
            <Plain text={String(tool["name"])} />
          </span>
          <span className="min-w-0 flex-1 truncate text-quiet max-sm:order-last max-sm:basis-full max-sm:whitespace-normal">
            <Plain text={String(tool["description"] ?? "").split("\n")[0] ?? ""} />
          </span>
          <span className="text-xs text-quiet">{facts.join(" · ")}</span>
        </summary>
        <div className="px-3 pb-3">
          <Long text={JSON.stringify(tool, null, 2)} label={`tool ${String(tool["name"])}`} />
        </div>
      </details>
    </li>
  );
}

const WORDS: Record<Part["kind"], string> = { same: "the same", gone: "gone", new: "new", changed: "changed" };
const TONES: Record<Part["kind"], string> = { same: "off", gone: "bad", new: "good", changed: "wait" };

function Differences({ older, newer }: { older: Version; newer: Version }) {
  const all = parts(older.spec, newer.spec);
  const some = all.filter((one) => one.kind !== "same");
  return (
    <div className="flex flex-col gap-4 p-4">
      <p className="text-sm text-quiet">
        The older one first ran <Ago atMs={older.created_ms} />, the newer <Ago atMs={newer.created_ms} />. {count(all.length - some.length)} parts are the same.
      </p>
      {some.map((one) => (
        <div key={one.name}>
          <h3 className="mb-1 flex items-center gap-2 text-sm font-medium">
            <span className="font-mono">
              <Plain text={one.name} />
            </span>
            <span className={`toned tone-${TONES[one.kind]} rounded-full px-2 text-xs`}>{WORDS[one.kind]}</span>
          </h3>
          <Lines part={one} />
        </div>
      ))}
    </div>
  );
}

const MARKS = { same: " ", gone: "−", new: "+" } as const;
const SAID = { same: "", gone: "gone: ", new: "new: " } as const;
const LOOKS = { same: "text-quiet", gone: "tone-bad bg-(--tone)/10 text-(--tone)", new: "tone-good bg-(--tone)/10 text-(--tone)" } as const;
const MOST = 600;

function Lines({ part }: { part: Part }) {
  const [all, showAll] = useState(false);
  const shown = around(part.lines);
  return (
    <>
      <div role="region" aria-label={`Changes of ${part.name}`} tabIndex={0} className="max-h-[28rem] overflow-auto rounded-md border border-line font-mono text-sm">
        {shown.slice(0, all ? undefined : MOST).map((line, at) =>
          line.kind === "skipped" ? (
            <p key={at} className="bg-sunken px-3 py-0.5 text-xs text-quiet">
              {count(line.lines)} lines are the same
            </p>
          ) : (
            <p key={at} className={`flex gap-2 px-3 whitespace-pre-wrap ${LOOKS[line.kind]}`}>
              <span aria-hidden="true" className="select-none">
                {MARKS[line.kind]}
              </span>
              <span className="min-w-0">
                <span className="sr-only">{SAID[line.kind]}</span>
                <Plain text={line.text} />
              </span>
            </p>
          ),
        )}
      </div>
      {shown.length > MOST && !all ? <Button onClick={() => showAll(true)}>Show all {count(shown.length)} lines</Button> : null}
    </>
  );
}

