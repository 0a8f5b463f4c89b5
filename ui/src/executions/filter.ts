/** Which executions a list shows, as its address says it. */

import type { ExecutionState, Summary } from "../api/client";
import { STATES } from "../design/Status";
import { plural } from "../text/time";

export type Since = "1h" | "24h" | "7d";
export const SINCE: Record<Since, { readonly word: string; readonly ms: number }> = {
  "1h": { word: "the last hour", ms: 3_600_000 },
  "24h": { word: "the last 24 hours", ms: 86_400_000 },
  "7d": { word: "the last 7 days", ms: 604_800_000 },
};
/** As the server has it. */
export const MOST_TEXT = 200;

export type Filter = {
  readonly state: ExecutionState | null;
  /** What stands in its id, agent, tags or input. */
  readonly text: string;
  readonly agent: string;
  readonly tag: string;
  readonly since: Since | null;
};

export const ALL: Filter = { state: null, text: "", agent: "", tag: "", since: null };

export function read(search: string): Filter {
  const given = new URLSearchParams(search);
  const state = given.get("state");
  const since = given.get("since");
  return {
    state: STATES.find((one) => one === state) ?? null,
    text: (given.get("text") ?? "").trim().slice(0, MOST_TEXT),
    agent: given.get("agent") ?? "",
    tag: given.get("tag") ?? "",
    since: since === "1h" || since === "24h" || since === "7d" ? since : null,
  };
}

export function write(filter: Filter): string {
  const said = new URLSearchParams();
  for (const name of ["state", "text", "agent", "tag", "since"] as const) {
    const value = filter[name];
    if (value) said.set(name, value);
  }
  const text = said.toString();
  return text ? `?${text}` : "";
}

/** What the server is asked for. The time is taken once, so that pages belong together. */
export function query(filter: Filter, nowMs: number) {
  return {
    ...(filter.state ? { state: filter.state } : {}),
    ...(filter.agent ? { agent: filter.agent } : {}),
    ...(filter.tag ? { tag: filter.tag } : {}),
    ...(filter.since ? { since_ms: nowMs - SINCE[filter.since].ms } : {}),
  };
}

/** The filter in words, for whoever is about to do something to all that pass it. */
export function told(filter: Filter): string {
  const parts = [
    filter.state ? `in state ${filter.state}` : "",
    filter.text ? `with “${filter.text}” in id, agent, tags or input` : "",
    filter.agent ? `of the agent ${filter.agent}` : "",
    filter.tag ? `with the tag ${filter.tag}` : "",
    filter.since ? `begun in ${SINCE[filter.since].word}` : "",
  ].filter(Boolean);
  return parts.join(", ") || "of whatever kind";
}

/** Whether an execution, as it stands now, belongs into the list; what was given to it, only the server knows. */
export function fits(filter: Filter, one: Summary, nowMs: number): boolean {
  return (
    (!filter.state || one.state === filter.state) &&
    (!filter.agent || one.agent === filter.agent) &&
    (!filter.tag || (one.tags ?? []).includes(filter.tag)) &&
    (!filter.since || one.created_ms >= nowMs - SINCE[filter.since].ms)
  );
}

/** Whether what a list shows of an execution has the text. */
export function mentions(text: string, one: Summary): boolean {
  const wanted = text.toLowerCase();
  return [one.id, one.agent, ...(one.tags ?? [])].some((each) => each.toLowerCase().includes(wanted));
}

type Page = { readonly items: readonly Summary[]; readonly cursor?: string | null };

/**
 * Pages of a list with news put into them: what stands in one is brought up to date or taken out, what is newer than the
 * end of the first page is put into that. What would stand further down is left to its page, read with it or to be read.
 */
export function merged<P extends Page>(filter: Filter, pages: readonly P[], news: readonly Summary[], nowMs: number): P[] {
  const changed = new Map(news.map((one) => [one.id, one]));
  const known = new Set(pages.flatMap((page) => page.items.map((one) => one.id)));
  return pages.map((page, at) => {
    const kept = page.items.map((one) => changed.get(one.id) ?? one).filter((one) => !changed.has(one.id) || fits(filter, one, nowMs));
    if (at > 0) return { ...page, items: kept };
    const end = page.cursor ?? "";
    const fresh = news.filter((one) => !known.has(one.id) && one.id > end && fits(filter, one, nowMs) && mentions(filter.text, one));
    return { ...page, items: [...kept, ...fresh].sort((one, other) => (one.id < other.id ? 1 : -1)) };
  });
}

/** How far a search has come. */
export function searched(pages: readonly { readonly looked_at?: number }[], more: boolean): string {
  const looked = pages.reduce((sum, page) => sum + (page.looked_at ?? 0), 0);
  return more ? `Looked at the newest ${plural(looked, "execution")}, not at older ones.` : `Looked at all: ${plural(looked, "execution")}.`;
}
