/** Times: how long ago, with the exact one as a title; the zone is chosen once for all pages. */

import { useSyncExternalStore } from "react";
import { ago, clock, duration, moment } from "../text/time";
import { useZone } from "./settings";

let nowMs = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    nowMs = Date.now();
    for (const one of listeners) one();
  }, 1_000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time now, a second at a time, and one clock for the whole page. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => nowMs);
}

export function Ago({ atMs }: { atMs: number }) {
  const now = useNow();
  const [zone] = useZone();
  return (
    <time dateTime={new Date(atMs).toISOString()} title={moment(atMs, zone, true)} className="tabular-nums">
      {ago(atMs, now)}
    </time>
  );
}

export function Exact({ atMs, precise = false }: { atMs: number; precise?: boolean }) {
  const [zone] = useZone();
  return (
    <time dateTime={new Date(atMs).toISOString()} className="tabular-nums">
      {moment(atMs, zone, precise)}
    </time>
  );
}

/** The time of the day, to the millisecond; with its date as a title. */
export function Clock({ atMs }: { atMs: number }) {
  const [zone] = useZone();
  return (
    <time dateTime={new Date(atMs).toISOString()} title={moment(atMs, zone, true)} className="tabular-nums">
      {clock(atMs, zone)}
    </time>
  );
}

/** How long something took, or has been going on. */
export function Span({ fromMs, toMs }: { fromMs: number; toMs: number | null }) {
  return <span className="tabular-nums">{toMs === null ? <Running fromMs={fromMs} /> : duration(toMs - fromMs)}</span>;
}

function Running({ fromMs }: { fromMs: number }) {
  return <>{duration(useNow() - fromMs)}</>;
}
