/** All executions, newest first: what runs, what waits, what went wrong. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef } from "react";
import { Link, useLocation, useSearch } from "wouter";
import type { Summary } from "../api/client";
import { Empty, Failed, Loading } from "../design/States";
import { Status } from "../design/Status";
import { Ago, Span } from "../design/Time";
import { useDensity, useMedia } from "../design/settings";
import { Id } from "../text/Copy";
import { Plain } from "../text/Text";
import { useExecutions } from "./data";
import { ALL, type Filter, read, write } from "./filter";
import { Filters } from "./Filters";

export function Executions() {
  const search = useSearch();
  const [, go] = useLocation();
  const filter = useMemo(() => read(search), [search]);
  const list = useExecutions(filter);
  const change = (next: Filter): void => go(`/executions${write(next)}`);

  return (
    <div className="flex min-h-0 flex-1 flex-col gap-3">
      <div className="flex flex-wrap items-baseline justify-between gap-2">
        <h1 className="text-xl font-semibold">Executions</h1>
      </div>
      <Filters filter={filter} change={change} />
      <section aria-label="List of executions" className="card min-h-0 flex-1 overflow-hidden">
        {list.isPending ? (
          <Loading what="executions" />
        ) : list.isError && list.items.length === 0 ? (
          <Failed error={list.error} again={() => void list.refetch()} />
        ) : list.items.length === 0 ? (
          <Nothing filtered={write(filter) !== ""} all={() => change(ALL)} />
        ) : (
          <Rows items={list.items} more={list.hasNextPage && !list.isFetchingNextPage ? () => void list.fetchNextPage() : null} />
        )}
      </section>
    </div>
  );
}

function Nothing({ filtered, all }: { filtered: boolean; all: () => void }) {
  if (filtered) {
    return (
      <Empty icon="filter" title="None is like that">
        <p>
          No execution passes these filters.{" "}
          <button type="button" className="font-medium text-accent underline underline-offset-2" onClick={all}>
            Show all
          </button>
        </p>
      </Empty>
    );
  }
  return (
    <Empty icon="list" title="Nothing has run yet">
      <p>Start an agent's tools in one terminal, and the agent in another:</p>
      <pre className="my-3 rounded-md bg-sunken p-3 text-left font-mono text-sm">{"perdure worker MODULE:AGENT\npython your_agent.py"}</pre>
      <p>
        Or see one outlive the death of its processes: <code className="font-mono">perdure demo</code>
      </p>
    </Empty>
  );
}

const COLUMNS = "grid-cols-[8.5rem_minmax(8rem,1fr)_minmax(9rem,1.1fr)_minmax(6rem,0.9fr)_7rem_7rem]";

function Rows({ items, more }: { items: readonly Summary[]; more: (() => void) | null }) {
  const scroll = useRef<HTMLDivElement>(null);
  const [density] = useDensity();
  const narrow = useMedia("(max-width: 767px)");
  const height = narrow ? 76 : density === "dense" ? 34 : 44;
  const rows = useVirtualizer({ count: items.length, getScrollElement: () => scroll.current, estimateSize: () => height, overscan: 12, getItemKey: (at) => items[at]?.id ?? at });
  useEffect(() => rows.measure(), [height, rows]);
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last >= items.length - 20) more();
  }, [last, items.length, more]);

  return (
    <div role="table" aria-rowcount={more ? -1 : items.length + 1} aria-label="Executions" className="flex h-full flex-col">
      <div role="rowgroup">
        <div role="row" className={`hidden gap-3 border-b border-line px-4 py-2 text-xs font-medium text-quiet md:grid ${COLUMNS}`}>
          {["State", "Agent", "Id", "Tags", "Started", "Duration"].map((name) => (
            <span role="columnheader" key={name}>
              {name}
            </span>
          ))}
        </div>
      </div>
      <div ref={scroll} role="rowgroup" tabIndex={0} aria-label="Rows" className="min-h-0 flex-1 overflow-auto outline-offset-[-2px]" onKeyDown={step}>
        <div role="presentation" className="relative" style={{ height: rows.getTotalSize() }}>
          {shown.map((row) => {
            const one = items[row.index];
            return one ? <Row key={one.id} one={one} index={row.index} top={row.start} height={height} /> : null;
          })}
        </div>
      </div>
    </div>
  );
}

function Row({ one, index, top, height }: { one: Summary; index: number; top: number; height: number }) {
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      data-execution={one.id}
      className={`absolute inset-x-0 border-b border-line px-4 hover:bg-hover md:grid md:items-center md:gap-3 ${COLUMNS} max-md:flex max-md:flex-col max-md:justify-center max-md:gap-1`}
      style={{ transform: `translateY(${top}px)`, height }}
    >
      <span role="cell" className="flex items-center justify-between gap-2">
        <Status state={one.state} small />
        <span className="text-xs text-quiet md:hidden">
          <Ago atMs={one.created_ms} />
        </span>
      </span>
      <span role="cell" className="truncate font-medium">
        <Link href={`/executions/${one.id}`} data-row className="after:absolute after:inset-0 after:content-['']">
          <Plain text={one.agent} />
        </Link>
        <span className="ml-2 font-normal text-faint md:hidden">
          <Id id={one.id} short />
        </span>
      </span>
      <span role="cell" className="truncate text-quiet max-md:hidden">
        <Id id={one.id} short />
      </span>
      <span role="cell" className="flex gap-1 overflow-hidden max-md:hidden">
        {(one.tags ?? []).slice(0, 3).map((tag) => (
          <span key={tag} className="truncate rounded-sm bg-sunken px-1.5 text-xs text-quiet">
            <Plain text={tag} />
          </span>
        ))}
      </span>
      <span role="cell" className="text-quiet max-md:hidden">
        <Ago atMs={one.created_ms} />
      </span>
      <span role="cell" className="text-quiet max-md:hidden">
        <Span fromMs={one.created_ms} toMs={one.finished_ms} />
      </span>
    </div>
  );
}

/** `j` and `k`, and the arrows, go from row to row; Enter opens one. */
function step(event: React.KeyboardEvent<HTMLDivElement>): void {
  const by = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  if (by === undefined) return;
  const links = [...event.currentTarget.querySelectorAll<HTMLAnchorElement>("a[data-row]")].sort((one, other) => one.getBoundingClientRect().top - other.getBoundingClientRect().top);
  const at = links.indexOf(document.activeElement as HTMLAnchorElement);
  const next = links[at < 0 ? 0 : at + by];
  if (!next) return;
  event.preventDefault();
  next.focus();
}
