/** Who serves what: workers' lanes by agent, and queues by whom they have. Pure. */

import type { Schemas } from "../api/client";

export type Worker = Schemas["WorkerInfo"];
export type Queue = Schemas["QueueView"];
/** The tools that servers call themselves. */
export const SERVER_QUEUE = "?server";

export type Serves = { readonly agent: string; readonly tools: readonly string[]; readonly queue: string };

/** A worker's tools, by agent and queue, in order. */
export function serves(worker: Worker): Serves[] {
  const found = new Map<string, { agent: string; tools: string[]; queue: string }>();
  for (const { agent, tool, queue } of worker.lanes) {
    const key = JSON.stringify([agent, queue]);
    const one = found.get(key) ?? { agent, tools: [], queue };
    one.tools.push(tool);
    found.set(key, one);
  }
  return [...found.values()].map((one) => ({ ...one, tools: one.tools.sort() })).sort((one, other) => (one.agent + one.queue < other.agent + other.queue ? -1 : 1));
}

/** How many of the workers take tasks from each queue. */
export function servedBy(workers: readonly Worker[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const worker of workers) {
    for (const queue of new Set(worker.lanes.map((lane) => lane.queue))) found.set(queue, (found.get(queue) ?? 0) + 1);
  }
  return found;
}

/** Queues that hold something or that somebody set, and those that workers serve though nothing was in them yet. */
export function withServed(queues: readonly Queue[], served: ReadonlyMap<string, number>): Queue[] {
  const known = new Set(queues.map((one) => one.name));
  const empty = [...served.keys()].filter((name) => !known.has(name)).map((name) => ({ name, paused: false, concurrency: null, rate: null, per_seconds: null, backlog: 0, leased: 0, oldest_ms: null, changed_by: "" }));
  return [...queues, ...empty].sort((one, other) => (one.name < other.name ? -1 : 1));
}

export type Limits = Pick<Queue, "concurrency" | "rate" | "per_seconds" | "per_key">;

/** `5 at once, 100 in 60 s, 2 of each key`: empty without limits. */
export function limits(queue: Limits): string {
  const period = queue.per_seconds === 1 || queue.per_seconds === null ? "a second" : `in ${queue.per_seconds} s`;
  return [
    queue.concurrency === null ? "" : `${queue.concurrency} at once`,
    queue.rate === null ? "" : `${queue.rate} ${period}`,
    queue.per_key == null ? "" : `${queue.per_key} of each key`,
  ]
    .filter(Boolean)
    .join(", ");
}

export type Gone = { readonly worker: string; readonly held: number };

/** Those who hold tasks and are not connected: given to others when their leases end. */
export function gone(workers: readonly Worker[], held: readonly Gone[]): Gone[] {
  const here = new Set(workers.map((one) => one.worker));
  return held.filter((one) => !here.has(one.worker));
}
