/** What the list is narrowed to: states with their counts, a text, agent, tag and time. */

import { type FormEvent, useEffect, useId, useState } from "react";
import { useLocation } from "wouter";
import { useAgents } from "../agents/data";
import type { ExecutionState } from "../api/client";
import { Icon } from "../design/icons";
import { EXECUTION, STATES } from "../design/Status";
import { count } from "../text/time";
import { useCounts } from "./data";
import { type Filter, MOST_TEXT, SINCE, type Since } from "./filter";

export function Filters({ filter, change }: { filter: Filter; change: (next: Filter) => void }) {
  const counts = useCounts(filter.agent);
  const agents = useAgents().data?.pages.flatMap((page) => page.items.map((one) => one.name)) ?? [];
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
        <Search text={filter.text} set={(text) => change({ ...filter, text })} />
        <Word label="Agent" known={agents} value={filter.agent} set={(agent) => change({ ...filter, agent })} />
        <Word label="Tag" value={filter.tag} set={(tag) => change({ ...filter, tag })} />
        <label className="flex items-center gap-1.5 text-sm text-quiet max-sm:min-w-0 max-sm:flex-1">
          <span className="max-sm:sr-only">Started in</span>
          <select className="field text-sm max-sm:min-h-10 max-sm:w-full" value={filter.since ?? ""} onChange={(event) => change({ ...filter, since: (event.target.value || null) as Since | null })}>
            <option value="">any time</option>
            {Object.entries(SINCE).map(([name, { word }]) => (
              <option key={name} value={name}>
                {word}
              </option>
            ))}
          </select>
        </label>
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
function Word({ label, value, known = [], set }: { label: string; value: string; known?: readonly string[]; set: (value: string) => void }) {
  const [typed, setTyped] = useState("");
  const list = useId();
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
    <form onSubmit={send} className="max-sm:min-w-0 max-sm:flex-1">
      <input aria-label={`Filter by ${label.toLowerCase()}`} placeholder={`${label} …`} className="field w-28 text-sm max-sm:min-h-10 max-sm:w-full" value={typed} onChange={(event) => setTyped(event.target.value)} {...(known.length > 0 ? { list } : {})} />
      {known.length > 0 ? (
        <datalist id={list}>
          {known.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      ) : null}
    </form>
  );
}

/** Text to look for, and where it is looked for. A whole id leads to its execution. */
function Search({ text, set }: { text: string; set: (text: string) => void }) {
  const [typed, setTyped] = useState(text);
  const [, go] = useLocation();
  useEffect(() => setTyped(text), [text]);
  const send = (event: FormEvent): void => {
    event.preventDefault();
    const id = /^exe_\w{26}$/.exec(typed.trim())?.[0];
    if (id) go(`/executions/${id}`);
    else set(typed.trim());
  };
  return (
    <form role="search" onSubmit={send} className="relative max-md:w-full md:w-80">
      <Icon name="search" size={14} className="absolute top-1/2 left-2.5 -translate-y-1/2 text-quiet" />
      <input
        type="text"
        aria-label="Search ids, agents, tags and inputs"
        placeholder="Search ids, agents, tags, inputs"
        title="An id that begins with exe_ is found at once, however old; all else is looked for in the newest executions first. Of an input its first 20,000 characters count."
        className="field w-full pr-9 pl-8 text-sm max-sm:min-h-10"
        value={typed}
        maxLength={MOST_TEXT}
        spellCheck={false}
        onChange={(event) => setTyped(event.target.value)}
      />
      {text ? (
        <button type="button" aria-label="Take the search away" onClick={() => set("")} className="absolute top-1/2 right-0.5 flex size-8 -translate-y-1/2 items-center justify-center text-quiet hover:text-ink">
          <Icon name="close" size={13} />
        </button>
      ) : null}
    </form>
  );
}
