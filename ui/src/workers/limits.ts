/** The limits of a queue as somebody types them. Pure. */

import type { Limits } from "./lanes";

export type Fields = { readonly concurrency: string; readonly per_key: string; readonly rate: string; readonly per_seconds: string };

/** As the server has it. */
const MOST = 1_000_000;
const LONGEST_SECONDS = 31 * 86_400;
const SHORTEST_SECONDS = 0.001;
const NAMES = { concurrency: "At once", per_key: "Of each key", rate: "Given out" } as const;

export function fieldsOf(limits: Limits): Fields {
  const text = (value: number | null | undefined): string => (value === null || value === undefined ? "" : String(value));
  return { concurrency: text(limits.concurrency), per_key: text(limits.per_key), rate: text(limits.rate), per_seconds: text(limits.per_seconds ?? 1) };
}

/** What is meant. A field that is empty is no limit. */
export function limitsOf(fields: Fields): Limits {
  const number = (text: string): number | null => (text.trim() === "" ? null : Number(text));
  const rate = number(fields.rate);
  return { concurrency: number(fields.concurrency), per_key: number(fields.per_key), rate, per_seconds: rate === null ? null : (number(fields.per_seconds) ?? 1) };
}

/** Say what cannot be, or nothing. */
export function problem(fields: Fields): string {
  const { per_seconds: seconds, ...counts } = limitsOf(fields);
  for (const name of ["concurrency", "per_key", "rate"] as const) {
    const value = counts[name];
    if (value === 0) return `${NAMES[name]}: to give out nothing, pause the queue.`;
    if (value != null && !(Number.isInteger(value) && value >= 1 && value <= MOST)) return `${NAMES[name]} is a whole number up to ${MOST.toLocaleString("en-GB")}, or nothing.`;
  }
  if (seconds != null && !(seconds >= SHORTEST_SECONDS && seconds <= LONGEST_SECONDS)) return "The time is a number of seconds, 31 days at most.";
  return "";
}

export function same(one: Limits, other: Limits): boolean {
  const whole = (limits: Limits): (number | null)[] => [limits.concurrency, limits.per_key ?? null, limits.rate, limits.rate === null ? null : (limits.per_seconds ?? 1)];
  return whole(one).every((value, at) => value === whole(other)[at]);
}
