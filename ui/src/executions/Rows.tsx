/** The list itself: only what is seen is laid out, however many there are. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useRef } from "react";
import { Link } from "wouter";
import type { Summary } from "../api/client";
import { Status } from "../design/Status";
import { Ago, Span } from "../design/Time";
import { useDensity, useMedia } from "../design/settings";
import { Id } from "../text/Copy";
import { Plain } from "../text/Text";

type Choosing = { chosen: ReadonlySet<string>; choose: (ids: readonly string[], yes: boolean) => void };
type Props = Choosing & { items: readonly Summary[]; more: (() => void) | null };

const COLUMNS = "md:grid-cols-[8.5rem_minmax(8rem,1fr)_minmax(9rem,1.1fr)_minmax(6rem,0.9fr)_7rem_7rem]";
const NEAR = 20;

export function Rows({ items, more, chosen, choose }: Props) {
  const scroll = useRef<HTMLDivElement>(null);
  const [density] = useDensity();
  const narrow = useMedia("(max-width: 767px)");
  const height = narrow ? 76 : density === "dense" ? 34 : 44;
  const rows = useVirtualizer({ count: items.length, getScrollElement: () => scroll.current, estimateSize: () => height, overscan: 12, getItemKey: (at) => items[at]?.id ?? at });
  useEffect(() => rows.measure(), [height, rows]);
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last >= items.length - NEAR) more();
  }, [last, items.length, more]);
  const step = (event: KeyboardEvent<HTMLDivElement>): void => {
    if (event.key !== "x") return walk(event);
    const id = document.activeElement?.closest<HTMLElement>("[data-execution]")?.dataset["execution"];
    if (id) choose([id], !chosen.has(id));
  };

  return (
    <div role="table" aria-rowcount={more ? -1 : items.length + 1} aria-label="Executions" className="flex h-full flex-col">
      <div role="rowgroup">
        <div role="row" className="hidden items-center border-b border-line pr-4 pl-2 text-xs font-medium text-quiet md:flex">
          <span role="columnheader" className="flex w-8 shrink-0">
            <Tick label="Choose all that are listed here" on={items.length > 0 && items.every((one) => chosen.has(one.id))} set={(yes) => choose(items.map((one) => one.id), yes)} />
          </span>
          <div role="presentation" className={`grid flex-1 gap-3 py-2 pl-2 ${COLUMNS}`}>
            {["State", "Agent", "Id", "Tags", "Started", "Duration"].map((name) => (
              <span role="columnheader" key={name}>
                {name}
              </span>
            ))}
          </div>
        </div>
      </div>
      <div ref={scroll} role="rowgroup" tabIndex={0} aria-label="Rows" className="min-h-0 flex-1 overflow-auto outline-offset-[-2px]" onKeyDown={step}>
        <div role="presentation" className="relative" style={{ height: rows.getTotalSize() }}>
          {shown.map((row) => {
            const one = items[row.index];
            return one ? <Row key={one.id} one={one} index={row.index} top={row.start} height={height} chosen={chosen.has(one.id)} choose={choose} /> : null;
          })}
        </div>
      </div>
    </div>
  );
}

type RowProps = { one: Summary; index: number; top: number; height: number; chosen: boolean; choose: Choosing["choose"] };

function Row({ one, index, top, height, chosen, choose }: RowProps) {
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      data-execution={one.id}
      className={`absolute inset-x-0 flex items-center border-b border-line pr-4 pl-2 hover:bg-hover ${chosen ? "bg-sunken" : ""}`}
      style={{ transform: `translateY(${top}px)`, height }}
    >
      <span role="cell" className="relative z-10 flex w-8 shrink-0">
        <Tick label={`Choose ${one.id}`} on={chosen} set={(yes) => choose([one.id], yes)} />
      </span>
      <div role="presentation" className={`min-w-0 flex-1 pl-2 md:grid md:items-center md:gap-3 ${COLUMNS} max-md:flex max-md:flex-col max-md:gap-1`}>
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
    </div>
  );
}

/** A box to tick, with room around it for a finger. */
function Tick({ label, on, set }: { label: string; on: boolean; set: (on: boolean) => void }) {
  return (
    <label className="flex size-8 items-center justify-center">
      <span className="sr-only">{label}</span>
      <input type="checkbox" checked={on} onChange={(event) => set(event.target.checked)} className="size-4 accent-accent-fill" />
    </label>
  );
}

/** `j` and `k`, and the arrows, go from row to row; Enter opens one. */
function walk(event: KeyboardEvent<HTMLDivElement>): void {
  const by = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  if (by === undefined) return;
  const links = [...event.currentTarget.querySelectorAll<HTMLAnchorElement>("a[data-row]")].sort((one, other) => one.getBoundingClientRect().top - other.getBoundingClientRect().top);
  const at = links.indexOf(document.activeElement as HTMLAnchorElement);
  const next = links[at < 0 ? 0 : at + by];
  if (!next) return;
  event.preventDefault();
  next.focus();
}
