/** The log as it is: every event, searchable, followed with `F`, walked through with `j` and `k`. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { Button } from "../design/Button";
import { Empty } from "../design/States";
import { Exact } from "../design/Time";
import type { Event } from "../log/event";
import { plain } from "../text/hostile";
import { Long, Plain } from "../text/Text";
import { count } from "../text/time";
import { eventPlace } from "./edits";
import { ForkButton } from "./Fork";

const SHORT = 300;

export function Events({ events, live }: { events: readonly Event[]; live: boolean }) {
  const [text, setText] = useState("");
  const [follow, setFollow] = useState(live);
  const [open, setOpen] = useState<number | null>(null);
  const scroll = useRef<HTMLDivElement>(null);
  const found = useMemo(() => matching(events, text), [events, text]);
  const rows = useVirtualizer({ count: found.length, getScrollElement: () => scroll.current, estimateSize: () => 40, overscan: 15, getItemKey: (at) => found[at]?.seq ?? at });
  const last = found.length - 1;
  useEffect(() => {
    if (follow && last >= 0) rows.scrollToIndex(last, { align: "end" });
  }, [follow, last, rows]);

  const step = (by: number): void => {
    const at = found.findIndex((one) => one.seq === open);
    const next = found[at < 0 ? (by > 0 ? 0 : last) : Math.min(Math.max(at + by, 0), last)];
    if (!next) return;
    setFollow(false);
    setOpen(next.seq);
    rows.scrollToIndex(found.indexOf(next), { align: "auto" });
  };

  return (
    <section
      aria-label="Events"
      className="flex flex-col gap-2"
      onKeyDown={(event) => {
        if (event.target instanceof HTMLInputElement) return;
        if (event.key === "f" || event.key === "F") setFollow(!follow);
        if (event.key === "j") step(1);
        if (event.key === "k") step(-1);
      }}
    >
      <div className="flex flex-wrap items-center gap-2">
        <input aria-label="Search the events" placeholder="Search …" className="field w-64 max-sm:w-full" value={text} onChange={(event) => setText(event.target.value)} />
        <span className="text-sm text-quiet tabular-nums" role="status">
          {text ? `${count(found.length)} of ` : ""}
          {count(events.length)} events
        </span>
        <span className="ml-auto" />
        <Button aria-pressed={follow} onClick={() => setFollow(!follow)} icon={follow ? "check" : "down"}>
          Follow <kbd className="rounded-sm border border-line px-1 text-xs text-quiet">F</kbd>
        </Button>
      </div>
      <div ref={scroll} tabIndex={0} role="region" aria-label="The log" className="card h-[60dvh] min-h-80 overflow-auto">
        {found.length === 0 ? <Empty icon="search" title="No event is like that" /> : null}
        <ol className="relative" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((row) => {
            const one = found[row.index];
            if (!one) return null;
            return (
              <li key={one.seq} ref={rows.measureElement} data-index={row.index} className="absolute inset-x-0 border-b border-line" style={{ transform: `translateY(${row.start}px)` }}>
                <EventRow one={one} open={one.seq === open} toggle={() => setOpen(one.seq === open ? null : one.seq)} />
              </li>
            );
          })}
        </ol>
      </div>
    </section>
  );
}

function EventRow({ one, open, toggle }: { one: Event; open: boolean; toggle: () => void }) {
  const short = useMemo(() => plain(JSON.stringify(one.data).slice(0, SHORT)), [one]);
  return (
    <>
      <button type="button" aria-expanded={open} onClick={toggle} className="flex w-full items-baseline gap-3 px-3 py-2 text-left text-sm hover:bg-hover">
        <span className="w-12 shrink-0 text-right font-mono text-faint tabular-nums">{one.seq}</span>
        <span className="w-40 shrink-0 font-medium max-sm:w-32">{one.kind.replaceAll("_", " ")}</span>
        <span className="w-48 shrink-0 truncate font-mono text-quiet max-md:hidden">
          <Plain text={one.address} />
        </span>
        <span className="min-w-0 flex-1 truncate font-mono text-faint">{short}</span>
        <span className="shrink-0 text-faint max-lg:hidden">
          <Exact atMs={one.at_ms} precise />
        </span>
      </button>
      {open ? (
        <div className="flex flex-col gap-2 px-3 pb-3">
          <div>
            <ForkButton place={eventPlace(one)} look="plain" />
          </div>
          <Long text={JSON.stringify(one.data, null, 2)} label={`data of event ${one.seq}`} />
        </div>
      ) : null}
    </>
  );
}

function matching(events: readonly Event[], text: string): readonly Event[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return events;
  return events.filter((one) => `${one.seq} ${one.kind} ${one.address} ${JSON.stringify(one.data)}`.toLowerCase().includes(wanted));
}
