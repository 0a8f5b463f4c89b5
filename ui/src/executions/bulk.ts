/** What is done to many executions at once: to those that were chosen, or to all that pass the filter. */

import { api, type Schemas, type Summary, taken } from "../api/client";
import { collected } from "../api/many";
import { isEnded, STATES } from "../design/Status";
import { listed } from "./data";
import type { Filter } from "./filter";

/** More than these are not asked for in one go. */
export const MOST = 10_000;
const PAGE = 500;

export type Meant = { readonly filter: Filter; readonly chosen: readonly Summary[] };
/** Something that a person can have tried again: a call that failed for good, or an execution that is stuck. */
export type Failed = { readonly execution: string; readonly address: string | null };

type Told = (n: number) => void;

/** Those that go on, and are not being cancelled already. */
export async function goingOn({ filter, chosen }: Meant, signal: AbortSignal, told: Told): Promise<Summary[]> {
  const goesOn = (state: string): boolean => !isEnded(state) && state !== "cancelling";
  if (chosen.length > 0) return chosen.filter((one) => goesOn(one.state));
  const found: Summary[] = [];
  for (const state of STATES.filter((one) => goesOn(one) && (!filter.state || one === filter.state))) {
    const before = found.length;
    found.push(...(await all({ ...filter, state }, signal, (n) => told(before + n))));
  }
  return found.slice(0, MOST);
}

/** All that pass a filter, the newest first. */
export function all(filter: Filter, signal: AbortSignal, told: Told): Promise<Summary[]> {
  const nowMs = Date.now();
  return collected((cursor) => listed(filter, nowMs, cursor, signal, PAGE), { most: MOST, signal, told });
}

/** What can be tried again of those that are meant. What has ended cannot: nothing runs for it any more. */
export async function failed(meant: Meant, signal: AbortSignal, told: Told): Promise<Failed[]> {
  const among = await goingOn(meant, signal, told);
  const ids = new Set(among.map((one) => one.id));
  const { agent } = meant.filter;
  const dead = await collected(
    (cursor) => taken(api.GET("/v1/tasks/dead", { params: { query: { limit: PAGE, ...(agent ? { agent } : {}), ...(cursor ? { cursor } : {}) } }, signal })),
    { most: MOST, signal },
  );
  return [
    ...among.filter((one) => one.state === "stuck").map((one) => ({ execution: one.id, address: null })),
    ...dead.filter((one) => ids.has(one.execution)).map(({ execution, address }) => ({ execution, address })),
  ];
}

export function tryAgain({ execution, address }: Failed, by: string, reason: string): Promise<unknown> {
  const params = { path: { execution } };
  if (address === null) return taken(api.POST("/v1/executions/{execution}/resume", { params, body: { by, reason } }));
  return taken(api.POST("/v1/executions/{execution}/tasks/retry", { params, body: { address, by, reason } }));
}

export function cancel(execution: string, by: string, reason: string): Promise<unknown> {
  return taken(api.POST("/v1/executions/{execution}/cancel", { params: { path: { execution } }, body: { by, reason } }));
}

export function whole(execution: string, signal: AbortSignal): Promise<Schemas["ExecutionView"]> {
  return taken(api.GET("/v1/executions/{execution}", { params: { path: { execution } }, signal }));
}
