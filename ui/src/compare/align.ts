/** Two executions side by side: which step of one is which of the other, and where they part. Pure. */

import type { Entry, From, ModelStep, News, Story, ToolStep } from "../log/story";
import { canonical } from "../text/diff";

export type Step = {
  /** What it is in its execution, whatever ids a model gave its calls. */
  readonly key: string;
  readonly kind: "input" | "model" | "tool" | "step" | "end";
  readonly title: string;
  readonly address: string;
  readonly asked: string;
  readonly answered: string;
  readonly state: string;
  readonly tookMs: number | null;
  readonly costUsd: number | null;
  readonly tokens: number;
  /** In a fork: taken over from its origin, at no cost and in no time, or written in its place. */
  readonly from: From;
};

export type Row = { readonly key: string; readonly left: Step | null; readonly right: Step | null; readonly same: boolean };

export type Comparison = {
  readonly rows: readonly Row[];
  /** The place of the first row that differs; -1 if none does. */
  readonly first: number;
};

/** The steps of an execution that can be compared, in order. */
export function stepsOf(story: Story): Step[] {
  const times = new Map<string, number>();
  const counted = (name: string): string => {
    const n = (times.get(name) ?? 0) + 1;
    times.set(name, n);
    return n === 1 ? name : `${name} #${n}`;
  };
  return story.entries.flatMap((one): Step[] => {
    const step = stepOf(one, counted);
    return step ? [step] : [];
  });
}

type Counted = (name: string) => string;

function stepOf(one: Entry, counted: Counted): Step | null {
  switch (one.kind) {
    case "model":
      return modelStep(one, counted);
    case "tool":
      return toolStep(one, counted);
    case "step":
      return { ...NOTHING, key: counted(one.address), kind: "step", from: one.from, title: one.address, address: one.address, answered: canonical(one.error || one.value), state: one.error ? "dead" : "done", tookMs: one.endedMs - one.startedMs };
    case "news":
      return newsStep(one);
    default:
      return null;
  }
}

const NOTHING = { asked: "", costUsd: null, tokens: 0, tookMs: null, from: "" as const };

function modelStep(one: ModelStep, counted: Counted): Step {
  const calls = one.calls.map((call) => `${call.name} ${oneLine(call.args)}`);
  return {
    key: counted(one.address),
    kind: "model",
    from: one.from,
    title: one.address.replace(/\/model.*$/, "").replace(/^turn/, "Turn"),
    address: one.address,
    asked: "",
    answered: [one.text, one.error, ...calls].filter(Boolean).join("\n"),
    state: one.outcome,
    tookMs: one.endedMs - one.startedMs,
    costUsd: one.costUsd,
    tokens: one.tokens.input + one.tokens.output,
  };
}

/** Arguments in one order of names, so that two models that wrote the same differ in nothing. */
function oneLine(args: string): string {
  try {
    return JSON.stringify(JSON.parse(canonical(JSON.parse(args))));
  } catch {
    return args;
  }
}

function toolStep(one: ToolStep, counted: Counted): Step {
  const turn = /^(turn \d+)\/tool\//.exec(one.address)?.[1];
  return {
    ...NOTHING,
    key: counted(turn ? `${turn}/${one.tool}` : one.address),
    kind: "tool",
    from: one.from,
    title: one.tool,
    address: one.address,
    asked: canonical(one.args),
    answered: canonical(one.error || one.value),
    state: one.state,
    tookMs: one.endedMs === null ? null : one.endedMs - one.startedMs,
  };
}

const ENDS = new Set(["completed", "failed", "cancelled"]);

function newsStep(one: News): Step | null {
  const plain = { ...NOTHING, address: "", answered: "", state: "" };
  if (one.what === "started") return { ...plain, key: "input", kind: "input", title: "Input", asked: one.text };
  if (ENDS.has(one.what)) return { ...plain, key: "end", kind: "end", title: "End", answered: one.text, state: one.what };
  return null;
}

/** Put steps of the same key beside each other, in the order of the left; what only the right has follows what it follows there. */
export function compared(left: readonly Step[], right: readonly Step[]): Comparison {
  const [ofLeft, ofRight] = [new Set(left.map((one) => one.key)), new Map(right.map((one) => [one.key, one]))];
  const after = new Map<string, Step[]>();
  let before = "";
  for (const one of right) {
    if (ofLeft.has(one.key)) before = one.key;
    else after.set(before, [...(after.get(before) ?? []), one]);
  }
  const alone = (key: string): Row[] => (after.get(key) ?? []).map((one) => ({ key: one.key, left: null, right: one, same: false }));
  const rows = [...alone(""), ...left.flatMap((one) => [rowOf(one, ofRight.get(one.key) ?? null), ...alone(one.key)])];
  return { rows, first: rows.findIndex((row) => !row.same) };
}

function rowOf(left: Step, right: Step | null): Row {
  const same = right !== null && left.asked === right.asked && left.answered === right.answered && left.state === right.state && left.title === right.title;
  return { key: left.key, left, right, same };
}
