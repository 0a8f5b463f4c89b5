/** What the crash demo shows of a run: its steps, where a worker was killed, and what its log says came of it. Pure. */

import { type Event, shown } from "../log/event";
import type { ModelStep, Story, ToolStep } from "../log/story";
import { plain } from "../text/hostile";

export type Part = {
  readonly label: string;
  readonly state: "recorded" | "running" | "queued" | "next";
  /** When it was recorded; null before. */
  readonly endedMs: number | null;
  /** The worker that did it, as the log names it; empty of what the server does itself. */
  readonly worker: string;
  /** How many workers were killed while this was the step that was at hand. */
  readonly kills: number;
};

/** The steps of a run in order: those that there are, and, up to `total`, those that are still to come. */
export function partsOf(story: Story, total: number, killsMs: readonly number[]): Part[] {
  const known = story.entries.filter((one) => one.kind === "tool" || one.kind === "model").map(part);
  const coming = Array.from({ length: Math.max(0, total - known.length) }, (): Part => NEXT);
  return marked([...known, ...coming], killsMs);
}

const NEXT: Part = { label: "", state: "next", endedMs: null, worker: "", kills: 0 };

function part(one: ToolStep | ModelStep): Part {
  if (one.kind === "model") return { label: `Model, ${plain(one.address.replace(/\/model$/, ""))}`, state: "recorded", endedMs: one.endedMs, worker: "", kills: 0 };
  const label = plain(`${one.tool} ${Object.values(one.args).map(shown).join(" ")}`).slice(0, 60);
  if (one.state === "done") return { label, state: "recorded", endedMs: one.endedMs, worker: one.attempts.at(-1)?.worker ?? "", kills: 0 };
  return { label, state: one.state === "running" ? "running" : "queued", endedMs: null, worker: "", kills: 0 };
}

/** Steps follow each other: what was at hand at a moment is the first that was not recorded by then. */
function marked(parts: readonly Part[], killsMs: readonly number[]): Part[] {
  const at = (ms: number): number => {
    const found = parts.findIndex((one) => one.endedMs === null || one.endedMs > ms);
    return found < 0 ? parts.length - 1 : found;
  };
  const places = killsMs.map(at);
  return parts.map((one, index) => ({ ...one, kills: places.filter((place) => place === index).length }));
}

export type Figures = {
  /** Steps whose result is in the log. */
  readonly recorded: number;
  /** Of those, how many were begun, tried or recorded once more after that. */
  readonly again: number;
  /** Calls of tools that a worker took with it, so that another one made them anew. */
  readonly cut: number;
};

const RECORDS = new Set(["step_recorded", "task_completed"]);
const TRIES = new Set([...RECORDS, "task_begun", "attempt_failed", "attempt_lost"]);

export function figuresOf(log: readonly Event[]): Figures {
  const recorded = new Set<string>();
  const again = new Set<string>();
  let cut = 0;
  for (const event of log) {
    if (event.kind === "attempt_lost") cut += 1;
    if (TRIES.has(event.kind) && recorded.has(event.address)) again.add(event.address);
    if (RECORDS.has(event.kind)) recorded.add(event.address);
  }
  return { recorded: recorded.size, again: again.size, cut };
}
