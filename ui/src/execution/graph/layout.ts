/**
 * An execution as a graph: turns one below the other, the calls of each side by side. Pure.
 * What an execution does is a row of stages, so everything's place follows from counting; no general layout is needed.
 */

import { type Event, textOf } from "../../log/event";
import type { Entry, Story } from "../../log/story";
import { count, duration, plural } from "../../text/time";

export const NODE = { width: 224, height: 62, gapX: 20, gapY: 40 } as const;
/** A stage of more parts side by side is folded at first, and all are where there are many. */
export const WIDE = 6;
const MANY = 60;
/** So many parts of one stage are drawn; how many more there are is told. */
export const MOST_BESIDE = 24;
/** So many nodes are drawn at once, never more. */
export const MOST_NODES = 300;

export type Part = {
  readonly id: string;
  readonly kind: "input" | "model" | "tool" | "step" | "child" | "timer" | "end";
  readonly title: string;
  readonly note: string;
  readonly state: string;
  /** Of the execution that a child is. */
  readonly execution: string;
  readonly address: string;
};

/** What happens side by side, after one thing that leads to it. */
export type Stage = { readonly key: string; readonly title: string; readonly lead: Part | null; readonly rest: readonly Part[] };

export type Node = Part & { readonly x: number; readonly y: number; /** The stage that it stands for, folded. */ readonly folds: string; readonly unfolds: string };
export type Edge = { readonly fromX: number; readonly fromY: number; readonly toX: number; readonly toY: number };
export type Graph = {
  readonly nodes: readonly Node[];
  readonly edges: readonly Edge[];
  readonly width: number;
  readonly height: number;
  /** Stages before and after those that are drawn. */
  readonly before: number;
  readonly after: number;
};

type Child = { readonly id: string; readonly address: string; readonly agent: string; readonly state: string; readonly parent: string };

/** The stages of an execution, in order. */
export function stagesOf(id: string, story: Story, events: readonly Event[], children: readonly Child[]): Stage[] {
  const below = childParts(id, children);
  const agent = story.entries.some((one) => one.kind === "model");
  const middle = agent ? turns(story, below) : layers(story, events, below);
  return [...single(story, "started"), ...middle, ...single(story, "completed"), ...single(story, "failed"), ...single(story, "cancelled")];
}

function single(story: Story, what: string): Stage[] {
  const said = story.entries.find((one) => one.kind === "news" && one.what === what);
  if (!said) return [];
  const [kind, title] = what === "started" ? (["input", "Input"] as const) : (["end", "End"] as const);
  return [{ key: what, title, lead: part({ id: what, kind, title, state: what === "started" ? "" : what }), rest: [] }];
}

function part(given: Partial<Part> & Pick<Part, "id" | "kind" | "title">): Part {
  return { note: "", state: "", execution: "", address: "", ...given };
}

function childParts(id: string, children: readonly Child[]): Part[] {
  const deeper = new Map<string, number>();
  const parents = new Map(children.map((one) => [one.id, one.parent]));
  for (const one of children) {
    let above = one.parent;
    while (above !== id && parents.has(above)) {
      deeper.set(above, (deeper.get(above) ?? 0) + 1);
      above = parents.get(above) ?? id;
    }
  }
  return children
    .filter((one) => one.parent === id)
    .map((one) => {
      const n = deeper.get(one.id) ?? 0;
      return part({ id: `child ${one.id}`, kind: "child", title: one.agent, note: n ? `${n} more below it` : "sub-agent", state: one.state, execution: one.id, address: one.address });
    });
}

type Growing = { readonly key: string; readonly title: string; lead: Part | null; readonly rest: Part[] };

/** An agent's turns: a reply, and beside each other what it asked for. */
function turns(story: Story, children: readonly Part[]): Stage[] {
  const stages: Growing[] = [];
  const known = new Map<string, Growing>();
  for (const one of story.entries) {
    if (one.kind !== "model" && one.kind !== "tool") continue;
    const key = /^turn \d+/.exec(one.address)?.[0] ?? one.address;
    const stage: Growing = known.get(key) ?? { key, title: key.replace("turn", "Turn"), lead: null, rest: [] };
    if (!known.has(key)) stages.push(stage);
    known.set(key, stage);
    if (one.kind === "model") stage.lead = partOf(one);
    else stage.rest.push(partOf(one));
  }
  for (const child of children) {
    const stage = known.get(/^turn \d+/.exec(child.address)?.[0] ?? "") ?? stages.at(-1);
    stage?.rest.push(child);
  }
  return stages;
}

const FROM = { origin: "taken over", edit: "edited" } as const;

function partOf(one: Exclude<Entry, { kind: "gap" | "news" }>): Part {
  const took = one.from ? FROM[one.from] : one.endedMs === null ? "" : duration(one.endedMs - one.startedMs);
  switch (one.kind) {
    case "model":
      return part({ id: one.address, kind: "model", title: one.model || "Model", note: [took, one.tokens.input + one.tokens.output > 0 ? plural(one.tokens.input + one.tokens.output, "token") : ""].filter(Boolean).join(", "), state: one.outcome === "refused" ? "refused_call" : one.outcome, address: one.address });
    case "tool":
      return part({ id: one.address, kind: "tool", title: one.tool, note: [took, one.attempts.length > 1 ? plural(one.attempts.length, "attempt") : ""].filter(Boolean).join(", "), state: one.state, address: one.address });
    case "step":
      return part({ id: one.address, kind: "step", title: one.address.replace(/\/1$/, ""), note: took, state: one.error ? "dead" : "done", address: one.address });
  }
}

type Timed = { readonly part: Part; readonly fromMs: number; readonly toMs: number };

/** A durable function's steps: those whose times overlap stand beside each other. */
function layers(story: Story, events: readonly Event[], children: readonly Part[]): Stage[] {
  const steps = story.entries.flatMap((one): Timed[] => (one.kind === "tool" || one.kind === "step" ? [{ part: partOf(one), fromMs: one.startedMs, toMs: one.endedMs ?? Infinity }] : []));
  const all = [...steps, ...waits(events, children)].sort((one, other) => one.fromMs - other.fromMs);
  const stages: { until: number; parts: Part[] }[] = [];
  for (const one of all) {
    const last = stages.at(-1);
    if (last && one.fromMs < last.until) {
      last.parts.push(one.part);
      last.until = Math.max(last.until, one.toMs);
    } else {
      stages.push({ until: one.toMs, parts: [one.part] });
    }
  }
  return stages.map(({ parts }, at) => {
    const [first] = parts;
    return parts.length === 1 && first ? { key: first.id, title: first.title, lead: first, rest: [] } : { key: `stage ${at}`, title: `${parts.length} side by side`, lead: null, rest: parts };
  });
}

/** Children and timers, with the times between which they were waited for. */
function waits(events: readonly Event[], children: readonly Part[]): Timed[] {
  const ended = new Map(events.filter((one) => one.kind === "child_ended" || one.kind === "timer_fired").map((one) => [one.address, one.at_ms]));
  return events.flatMap((one): Timed[] => {
    const times = { fromMs: one.at_ms, toMs: ended.get(one.address) ?? Infinity };
    if (one.kind === "timer_set") return [{ ...times, part: part({ id: one.address, kind: "timer", title: "Timer", note: ended.has(one.address) ? duration(times.toMs - times.fromMs) : "", state: ended.has(one.address) ? "done" : "running", address: one.address }) }];
    if (one.kind !== "child_started") return [];
    const execution = textOf(one.data, "execution");
    const known = children.find((child) => child.execution === execution) ?? part({ id: `child ${execution}`, kind: "child", title: textOf(one.data, "agent"), note: "sub-agent", execution, address: one.address });
    return [{ ...times, part: known }];
  });
}

/** Whether a stage stands unfolded while nobody said anything about it. */
export function openAtFirst(stage: Stage, stages: readonly Stage[]): boolean {
  const parts = stages.reduce((sum, one) => sum + one.rest.length + 1, 0);
  return stage.rest.length <= WIDE && parts <= MANY;
}

/** Lay out as many stages as may be drawn, from one on. `isOpen`: whether a stage is shown with its parts. */
export function graphOf(stages: readonly Stage[], from: number, isOpen: (stage: Stage) => boolean): Graph {
  const rows: Node[][] = [];
  let [drawn, at] = [0, from];
  for (; at < stages.length; at += 1) {
    const stage = stages[at] as Stage;
    const more = rowsOf(stage, isOpen(stage));
    const n = more.reduce((sum, row) => sum + row.length, 0);
    if (drawn > 0 && drawn + n > MOST_NODES) break;
    drawn += n;
    rows.push(...more);
  }
  const width = Math.max(NODE.width, ...rows.map(widthOf));
  const placed = rows.map((row, y) => row.map((node, x) => ({ ...node, x: (width - widthOf(row)) / 2 + x * (NODE.width + NODE.gapX), y: y * (NODE.height + NODE.gapY) })));
  const height = Math.max(0, rows.length * (NODE.height + NODE.gapY) - NODE.gapY);
  return { nodes: placed.flat(), edges: edgesOf(placed, width), width, height, before: from, after: stages.length - at };
}

function widthOf(row: readonly unknown[]): number {
  return row.length * (NODE.width + NODE.gapX) - NODE.gapX;
}

function rowsOf(stage: Stage, open: boolean): Node[][] {
  const plain = { x: 0, y: 0, folds: "", unfolds: "" };
  if (stage.rest.length === 0) return stage.lead ? [[{ ...stage.lead, title: stage.title, ...plain }]] : [];
  if (!open) return [[{ ...summary(stage), ...plain, unfolds: stage.key }]];
  const lead = stage.lead ? [[{ ...stage.lead, title: stage.title, ...plain, folds: stage.key }]] : [];
  const more = stage.rest.length - MOST_BESIDE;
  const rest = more > 0 ? [...stage.rest.slice(0, MOST_BESIDE), part({ id: `more of ${stage.key}`, kind: "tool", title: `${count(more)} more`, note: "see Tasks", address: stage.key })] : stage.rest;
  return [...lead, rest.map((one) => ({ ...one, ...plain }))];
}

const WORST = ["uncertain", "contradicted", "dead", "failed", "stuck", "asked", "paused", "begun", "running", "leased", "waiting", "queued", "ready"];

/** One node for a stage that is folded; its state is the one that most needs a look. */
function summary(stage: Stage): Part {
  const states = stage.rest.map((one) => one.state);
  const worst = WORST.find((one) => states.includes(one)) ?? states[0] ?? "";
  const child = stage.rest.find((one) => one.state === worst)?.kind === "child";
  const note = stage.lead ? plural(stage.rest.length, "call") : "";
  return part({ id: `all of ${stage.key}`, kind: child ? "child" : "tool", title: stage.title, note, state: worst, address: stage.key });
}

/** From each node to each below it; where several meet several, by one point between. */
function edgesOf(rows: readonly (readonly Node[])[], width: number): Edge[] {
  return rows.flatMap((row, at): Edge[] => {
    const next = rows[at + 1];
    if (!next) return [];
    const [from, to] = [row.map(bottom), next.map(top)];
    if (from.length === 1 || to.length === 1) return from.flatMap((one) => to.map((other) => edge(one, other)));
    const between = { x: width / 2, y: ((from[0]?.y ?? 0) + (to[0]?.y ?? 0)) / 2 };
    return [...from.map((one) => edge(one, between)), ...to.map((other) => edge(between, other))];
  });
}

type Point = { readonly x: number; readonly y: number };

function bottom(node: Node): Point {
  return { x: node.x + NODE.width / 2, y: node.y + NODE.height };
}

function top(node: Node): Point {
  return { x: node.x + NODE.width / 2, y: node.y };
}

function edge(from: Point, to: Point): Edge {
  return { fromX: from.x, fromY: from.y, toX: to.x, toY: to.y };
}
