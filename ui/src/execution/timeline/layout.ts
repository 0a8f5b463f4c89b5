/** A story as bars in rows: what waited, what ran, which attempts there were, and when nothing was alive. Pure. */

import type { Attempt, Entry, Gap, Story, ToolStep } from "../../log/story";
import { plain } from "../../text/hostile";
import { duration } from "../../text/time";
import { type Scale, scaleOf, type Stretch } from "./scale";

export type BarKind = "model" | "run" | "failed" | "lost" | "queue" | "asked" | "pause" | "step";

export type Bar = Stretch & { readonly kind: BarKind; readonly text: string };

export type Row = {
  readonly address: string;
  readonly label: string;
  readonly kind: "model" | "tool" | "step";
  readonly bars: readonly Bar[];
  /** Its result was recorded before a server died, and was used again instead of doing it again. */
  readonly reused: boolean;
  readonly uncertain: boolean;
  readonly claimed: boolean;
};

export type Plan = {
  readonly rows: readonly Row[];
  readonly scale: Scale;
  readonly gaps: readonly Gap[];
  /** What each squeezed stretch was. */
  readonly marks: readonly { readonly at: number; readonly width: number; readonly text: string; readonly dead: boolean }[];
};

export function planOf(story: Story, nowMs: number | null): Plan {
  const toMs = Math.max(nowMs ?? story.lastMs, story.lastMs);
  const gaps = story.entries.filter((one): one is Gap => one.kind === "gap");
  const lastGap = gaps.at(-1)?.startedMs ?? 0;
  const rows = story.entries.map((one) => rowOf(one, toMs, lastGap)).filter((one): one is Row => one !== null);
  const busy = rows.flatMap((row) => row.bars.filter((bar) => BUSY.has(bar.kind)));
  const scale = scaleOf(story.startedMs, toMs, busy);
  const marks = scale.squeezed.map((one) => ({ at: one.at, width: one.width, ...meaning(one, rows, gaps) }));
  return { rows, scale, gaps, marks };
}

const BUSY = new Set<BarKind>(["model", "run", "failed", "step"]);

function rowOf(one: Entry, toMs: number, lastGapMs: number): Row | null {
  const reused = one.kind !== "gap" && one.kind !== "news" && one.endedMs !== null && one.endedMs <= lastGapMs;
  const plainRow = { reused, uncertain: false, claimed: false };
  switch (one.kind) {
    case "model":
      return { ...plainRow, address: one.address, kind: "model", label: one.address.replace(/\/model.*$/, ""), bars: [{ kind: "model", fromMs: one.startedMs, toMs: one.endedMs, text: `model, ${duration(one.endedMs - one.startedMs)}` }] };
    case "step":
      return { ...plainRow, address: one.address, kind: "step", label: plain(one.address), bars: [{ kind: "step", fromMs: one.startedMs, toMs: one.endedMs, text: `step, ${duration(one.endedMs - one.startedMs)}` }] };
    case "tool":
      return { ...plainRow, address: one.address, kind: "tool", label: plain(one.tool), bars: toolBars(one, toMs), uncertain: one.state === "uncertain", claimed: one.claims > 0 };
    default:
      return null;
  }
}

function toolBars(step: ToolStep, toMs: number): Bar[] {
  const bars: Bar[] = [];
  const add = (kind: BarKind, fromMs: number, endMs: number, what: string): void => {
    if (endMs > fromMs) bars.push({ kind, fromMs, toMs: endMs, text: `${what}, ${duration(endMs - fromMs)}` });
  };
  if (step.asked) add("asked", step.asked.openedMs, step.asked.decidedMs ?? toMs, "waiting for a person");
  let freeMs = step.scheduledMs;
  for (const attempt of step.attempts) {
    if (freeMs !== null && attempt.startedMs !== null) add("queue", freeMs, attempt.startedMs, "in its queue");
    const fromMs = attempt.startedMs ?? freeMs ?? step.startedMs;
    add(kindOf(attempt), fromMs, attempt.endedMs ?? toMs, `attempt ${attempt.number}${attempt.lost ? ", lost" : attempt.error ? ", failed" : ""}`);
    if (attempt.endedMs !== null && attempt.pauseMs > 0) add("pause", attempt.endedMs, Math.min(attempt.endedMs + attempt.pauseMs, toMs), "put off");
    freeMs = attempt.endedMs === null ? null : attempt.endedMs + attempt.pauseMs;
  }
  if (step.state === "queued" && freeMs !== null) add("queue", freeMs, toMs, "in its queue");
  return bars;
}

function kindOf(attempt: Attempt): BarKind {
  if (attempt.lost) return "lost";
  return attempt.error ? "failed" : "run";
}

/** What a squeezed stretch was: somebody's wait, a time in which nothing was alive, or just nothing. */
function meaning(one: Stretch, rows: readonly Row[], gaps: readonly Gap[]): { text: string; dead: boolean } {
  const took = duration(one.toMs - one.fromMs);
  const meets = (other: Stretch): boolean => other.fromMs < one.toMs && other.toMs > one.fromMs;
  if (gaps.some((gap) => meets({ fromMs: gap.startedMs, toMs: gap.endedMs }))) return { text: `${took} nothing alive`, dead: true };
  const bars = rows.flatMap((row) => row.bars).filter(meets);
  if (bars.some((bar) => bar.kind === "lost")) return { text: `${took} worker gone`, dead: true };
  if (bars.some((bar) => bar.kind === "asked")) return { text: `${took} asking`, dead: false };
  return { text: bars.some((bar) => bar.kind === "queue") ? `${took} queued` : took, dead: false };
}
