/** What the list is narrowed to, as chips: states with their counts, then agent, tag and time. */

import { type FormEvent, useState } from "react";
import { useLocation } from "wouter";
import type { ExecutionState } from "../api/client";
import { Icon } from "../design/icons";
import { EXECUTION, STATES } from "../design/Status";
import { count } from "../text/time";
import { useCounts } from "./data";
import { type Filter, SINCE, type Since } from "./filter";

export function Filters({ filter, change }: { filter: Filter; change: (next: Filter) => void }) {
  const counts = useCounts(filter.agent);
  const found = counts.data;
  const total = found ? STATES.reduce((sum, one) => sum + (found.counts[one] ?? 0), 0) : null;
  const said = (state: ExecutionState): string => {
    const n = found?.counts[state];
    return n === undefined ? "" : n >= (found?.most ?? Infinity) ? `${count(n)}+` : count(n);
  };
  return (
    <div className="flex flex-col gap-2">
      <div role="group" aria-label="Filter by state" className="-mx-1 flex gap-1.5 overflow-x-auto px-1 py-1 max-md:pb-2 md:flex-wrap">
        <Chip chosen={filter.state === null} onClick={() => change({ ...filter, state: null })} tone="off" label="All" n={total === null ? "" : count(total)} />
        {STATES.map((state) => (
          <Chip
            key={state}
            chosen={filter.state === state}
            tone={EXECUTION[state].tone}
            icon={<Icon name={EXECUTION[state].icon} size={13} />}
            label={EXECUTION[state].word}
            n={said(state)}
            onClick={() => change({ ...filter, state: filter.state === state ? null : state })}
          />
        ))}
      </div>
      <div className="flex flex-wrap items-center gap-2">
        <Word label="Agent" value={filter.agent} set={(agent) => change({ ...filter, agent })} />
        <Word label="Tag" value={filter.tag} set={(tag) => change({ ...filter, tag })} />
        <label className="flex items-center gap-1.5 text-sm text-quiet">
          Started in
          <select className="field text-sm" value={filter.since ?? ""} onChange={(event) => change({ ...filter, since: (event.target.value || null) as Since | null })}>
            <option value="">any time</option>
            {Object.entries(SINCE).map(([name, { word }]) => (
              <option key={name} value={name}>
                {word}
              </option>
            ))}
          </select>
        </label>
        <Jump />
      </div>
    </div>
  );
}

type ChipProps = { chosen: boolean; tone: string; label: string; n: string; icon?: React.ReactNode; onClick: () => void };

function Chip({ chosen, tone, label, n, icon, onClick }: ChipProps) {
  return (
    <button
      type="button"
      aria-pressed={chosen}
      onClick={onClick}
      className={`tone-${tone} inline-flex min-h-8 shrink-0 items-center gap-1.5 rounded-full border px-3 text-sm whitespace-nowrap transition-colors max-sm:min-h-10 ${
        chosen ? "border-accent bg-card font-medium text-ink ring-1 ring-accent" : "border-line bg-card text-quiet hover:bg-hover"
      }`}
    >
      {icon ? <span className="text-(--tone)">{icon}</span> : null}
      {label}
      {n ? <span className="text-xs text-faint tabular-nums">{n}</span> : null}
    </button>
  );
}

/** An exact word to filter by: a field, or what was typed as a chip that can be taken away. */
function Word({ label, value, set }: { label: string; value: string; set: (value: string) => void }) {
  const [typed, setTyped] = useState("");
  if (value) {
    return (
      <span className="inline-flex min-h-8 items-center gap-1 rounded-md border border-accent bg-card pl-2.5 text-sm ring-1 ring-accent">
        <span className="text-quiet">{label}</span> <span className="max-w-48 truncate font-medium">{value}</span>
        <button type="button" aria-label={`Take the filter by ${label.toLowerCase()} away`} onClick={() => set("")} className="flex size-8 items-center justify-center text-quiet hover:text-ink">
          <Icon name="close" size={13} />
        </button>
      </span>
    );
  }
  const send = (event: FormEvent): void => {
    event.preventDefault();
    if (typed.trim()) set(typed.trim());
    setTyped("");
  };
  return (
    <form onSubmit={send}>
      <input aria-label={`Filter by ${label.toLowerCase()}`} placeholder={`${label} …`} className="field w-32 text-sm" value={typed} onChange={(event) => setTyped(event.target.value)} />
    </form>
  );
}

/** Go to an execution whose id somebody has. */
function Jump() {
  const [typed, setTyped] = useState("");
  const [, go] = useLocation();
  const id = /exe_\w+/.exec(typed)?.[0];
  return (
    <form
      className="ml-auto max-sm:ml-0"
      onSubmit={(event) => {
        event.preventDefault();
        if (id) go(`/executions/${id}`);
      }}
    >
      <input aria-label="Go to an execution by its id" placeholder="Go to exe_ …" className="field w-40 font-mono text-sm" value={typed} onChange={(event) => setTyped(event.target.value)} spellCheck={false} />
    </form>
  );
}
