/** Times and durations as people read them. Pure: what "now" is, the caller says. */

export type Zone = "local" | "utc";

const UNITS: readonly [number, string][] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
];

/** `4 ms`, `1.2 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function duration(ms: number): string {
  const span = Math.max(0, ms);
  if (span < 1_000) return `${Math.round(span)} ms`;
  if (span < 59_950) return `${(span / 1_000).toFixed(1)} s`;
  const wholeMs = Math.round(span / 1_000) * 1_000;
  for (const [at, [size, unit]] of UNITS.entries()) {
    if (wholeMs < size) continue;
    const next = UNITS[at + 1];
    const rest = next ? Math.floor((wholeMs % size) / next[0]) : 0;
    const whole = `${Math.floor(wholeMs / size)} ${unit}`;
    return next && rest > 0 ? `${whole} ${rest} ${next[1]}` : whole;
  }
  return `${wholeMs / 1_000} s`;
}

/** `now`, `12 s ago`, `in 3 min`: one unit, which is what a glance takes in. */
export function ago(atMs: number, nowMs: number): string {
  const span = Math.abs(nowMs - atMs);
  if (span < 2_000) return "now";
  const [size, unit] = UNITS.find(([one]) => span >= one) ?? [1_000, "s"];
  const said = `${Math.floor(span / size)} ${unit}`;
  return atMs <= nowMs ? `${said} ago` : `in ${said}`;
}

/** `2026-11-30 08:15:02`, in the zone that is asked for; with milliseconds where they matter. */
export function moment(atMs: number, zone: Zone, precise = false): string {
  const shift = zone === "utc" ? 0 : -new Date(atMs).getTimezoneOffset() * 60_000;
  const text = new Date(atMs + shift).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, precise ? 23 : 19)}${zone === "utc" ? " UTC" : ""}`;
}

/** `08:15:02.417`: the time of a day, where the day stands elsewhere. */
export function clock(atMs: number, zone: Zone): string {
  return moment(atMs, zone, true).slice(11, 23);
}

/** `2,412`; in a table thousands are told apart at a glance. */
export function count(n: number): string {
  return n.toLocaleString("en-GB");
}

/** `$0.0042`, `$1.20`. An unknown price is unknown, never nothing. */
export function cost(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return "unknown";
  if (usd === 0) return "$0";
  return `$${usd < 0.1 ? usd.toPrecision(2) : usd.toFixed(2)}`;
}

/** `1 call`, `2 calls`. */
export function plural(n: number, noun: string): string {
  return `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
}
