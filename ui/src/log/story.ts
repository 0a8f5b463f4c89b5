/**
 * What happened in an execution, read from its log: who waited for whom, how often something was tried, what it cost.
 * Pure. It tells what `perdure executions watch` tells, by the same rules.
 */

import { type Event, type Fields, fields, listOf, numberOf, outcomeIn, replyIn, shown, textOf } from "./event";

export type Attempt = {
  readonly number: number;
  readonly worker: string;
  readonly startedMs: number | null;
  /** Null while it runs. */
  readonly endedMs: number | null;
  readonly error: string;
  /** Nothing was heard of it: its worker vanished, or handed it back. */
  readonly lost: boolean;
  /** How long the next try was put off. */
  readonly pauseMs: number;
};

export type Asked = {
  readonly id: string;
  readonly openedMs: number;
  readonly decidedMs: number | null;
  readonly decision: string;
  readonly by: string;
  readonly reason: string;
};

/** In a fork: taken over from its origin, or written by who forked it. Empty: this execution's own. */
export type From = "" | "origin" | "edit";

export type ToolState = "asked" | "queued" | "running" | "begun" | "done" | "dead" | "uncertain" | "refused";

export type ToolStep = {
  readonly kind: "tool";
  readonly from: From;
  readonly address: string;
  readonly seq: number;
  readonly tool: string;
  readonly args: Fields;
  readonly delivery: string;
  readonly state: ToolState;
  readonly startedMs: number;
  readonly scheduledMs: number | null;
  readonly endedMs: number | null;
  readonly attempts: readonly Attempt[];
  readonly asked: Asked | null;
  readonly ruling: { readonly ruling: string; readonly by: string; readonly reason: string; readonly atMs: number } | null;
  readonly value: unknown;
  readonly error: string;
  readonly claims: number;
  /** Of the event that holds its result, or says that there is none; null without one. */
  readonly answerSeq: number | null;
};

export type ModelStep = {
  readonly kind: "model";
  readonly from: From;
  readonly address: string;
  readonly seq: number;
  /** When it could begin: the last answer before it, or the takeover after which it was made again. */
  readonly startedMs: number;
  readonly endedMs: number;
  readonly outcome: string;
  /** Requests of processes that died before they recorded a reply: possibly paid, and made again. */
  readonly repeated: number;
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly args: string }[];
  readonly model: string;
  readonly tokens: { readonly input: number; readonly output: number };
  readonly costUsd: number | null;
  readonly finish: string;
  readonly error: string;
};

/** A step that a durable function ran itself. */
export type InlineStep = {
  readonly kind: "step";
  readonly from: From;
  readonly address: string;
  readonly seq: number;
  readonly startedMs: number;
  readonly endedMs: number;
  readonly value: unknown;
  readonly error: string;
};

/** A server held the execution and died; nothing moved it until another took over. */
export type Gap = { readonly kind: "gap"; readonly seq: number; readonly startedMs: number; readonly endedMs: number };

export type News = {
  readonly kind: "news";
  readonly seq: number;
  readonly startedMs: number;
  readonly what: string;
  readonly text: string;
  readonly by: string;
};

export type Entry = ToolStep | ModelStep | InlineStep | Gap | News;

/** Where this execution was forked off another: what stands before that was the other's. */
export type Fork = { readonly seq: number; readonly origin: string; readonly originSeq: number; readonly by: string };

export type Story = { readonly entries: readonly Entry[]; readonly startedMs: number; readonly lastMs: number; readonly fork: Fork | null };

/** Which attempts run just now: what only the tasks' rows know. */
export type Running = ReadonlyMap<string, { readonly attempt: number; readonly worker: string; readonly startedMs: number }>;

export function storyOf(log: readonly Event[], running: Running = new Map()): Story {
  const fork = forkOf(log);
  const own = fork?.seq ?? 0;
  const entries: Entry[] = [...tools(log, running, own), ...models(log, own), ...inlineSteps(log, own), ...gaps(log), ...news(log)];
  entries.sort((one, other) => one.startedMs - other.startedMs || one.seq - other.seq);
  return { entries, startedMs: log[0]?.at_ms ?? 0, lastMs: log.at(-1)?.at_ms ?? 0, fork };
}

/** Whose an event is. `own`: the `seq` behind which a fork's log is its own. */
function fromOf(event: Event | undefined, own: number): From {
  if (event?.data["edited"]) return "edit";
  return event && (event.seq < own || textOf(event.data, "origin")) ? "origin" : "";
}

function forkOf(log: readonly Event[]): Fork | null {
  const said = log.findLast((event) => event.kind === "forked");
  return said ? { seq: said.seq, origin: textOf(said.data, "origin"), originSeq: numberOf(said.data, "seq") ?? 0, by: textOf(said.data, "by") } : null;
}

// Tool calls.

type Call = {
  scheduled?: Event;
  opened?: Event;
  resolved?: Event;
  ruled?: Event;
  begun: Event[];
  ends: Event[];
};

const ENDS = new Set(["attempt_failed", "attempt_lost", "task_completed", "task_failed", "task_uncertain", "task_revived"]);

function callOf(address: string): string {
  return address.endsWith("/approval") ? address.slice(0, -"/approval".length) : address;
}

function* tools(log: readonly Event[], running: Running, own: number): Iterable<ToolStep> {
  const calls = new Map<string, Call>();
  const call = (address: string): Call => {
    const known = calls.get(address) ?? { begun: [], ends: [] };
    calls.set(address, known);
    return known;
  };
  for (const event of log) {
    const known = calls.get(callOf(event.address));
    if (event.kind === "waitpoint_opened" && "tool" in event.data) call(callOf(event.address)).opened = event;
    else if (event.kind === "task_scheduled") call(event.address).scheduled = event;
    else if (!known) continue;
    else if (event.kind === "waitpoint_resolved") known.resolved = event;
    else if (event.kind === "task_begun") known.begun.push(event);
    else if (event.kind === "effect_ruled") known.ruled = event;
    else if (ENDS.has(event.kind)) known.ends.push(event);
  }
  for (const [address, one] of calls) {
    const asked = one.scheduled ?? one.opened;
    if (asked) yield tool(address, one, asked, running.get(address), own);
  }
}

function tool(address: string, call: Call, asked: Event, now: ReturnType<Running["get"]>, own: number): ToolStep {
  const attempts = call.ends.filter((end) => end.data["attempt"]).map(attempt);
  if (now && !ended(call)) attempts.push({ number: now.attempt, worker: now.worker, startedMs: now.startedMs, endedMs: null, error: "", lost: false, pauseMs: 0 });
  return {
    kind: "tool",
    from: fromOf(call.ends.at(-1), own),
    address,
    seq: asked.seq,
    tool: textOf(asked.data, "tool"),
    args: fields(call.resolved?.data["args"] ?? asked.data["args"]),
    delivery: textOf(asked.data, "delivery"),
    startedMs: (call.opened ?? asked).at_ms,
    scheduledMs: call.scheduled?.at_ms ?? null,
    attempts,
    asked: call.opened ? approval(call.opened, call.resolved) : null,
    ruling: call.ruled
      ? { ruling: textOf(call.ruled.data, "ruling"), by: textOf(call.ruled.data, "by"), reason: textOf(call.ruled.data, "reason"), atMs: call.ruled.at_ms }
      : null,
    claims: call.begun.length,
    answerSeq: call.ends.findLast((end) => end.kind === "task_completed" || end.kind === "task_failed")?.seq ?? null,
    ...ending(call, now !== undefined),
  };
}

type Ending = Pick<ToolStep, "state" | "endedMs" | "value" | "error">;

function ended(call: Call): boolean {
  const kind = call.ends.at(-1)?.kind;
  return kind === "task_completed" || kind === "task_failed";
}

function ending(call: Call, runs: boolean): Ending {
  const nothing = { endedMs: null, value: undefined, error: "" };
  if (!call.scheduled) {
    if (!call.resolved) return { state: "asked", ...nothing };
    const decision = textOf(call.resolved.data, "decision");
    if (decision === "approve" || decision === "edit") return { state: "queued", ...nothing };
    return { state: "refused", endedMs: call.resolved.at_ms, value: call.resolved.data["answer"], error: decision === "reject" ? "rejected" : decision };
  }
  const last = call.ends.at(-1);
  switch (last?.kind) {
    case "task_completed":
      return { state: "done", endedMs: last.at_ms, value: last.data["value"], error: "" };
    case "task_failed":
      return { state: "dead", endedMs: last.at_ms, value: undefined, error: textOf(last.data, "error") };
    case "task_uncertain":
      return uncertain(call, last);
    default:
      return { state: runs ? "running" : call.begun.length > 0 ? "begun" : "queued", ...nothing };
  }
}

function uncertain(call: Call, last: Event): Ending {
  const why = textOf(last.data, "why");
  switch (call.ruled && textOf(call.ruled.data, "ruling")) {
    case undefined:
      return { state: "uncertain", endedMs: last.at_ms, value: undefined, error: why };
    case "happened":
      return { state: "done", endedMs: last.at_ms, value: call.ruled?.data["value"], error: "" };
    case "run":
      return { state: "queued", endedMs: null, value: undefined, error: "" };
    default:
      return { state: "dead", endedMs: last.at_ms, value: undefined, error: why };
  }
}

function attempt(end: Event): Attempt {
  return {
    number: numberOf(end.data, "attempt") ?? 0,
    worker: textOf(end.data, "worker"),
    startedMs: numberOf(end.data, "started_ms"),
    endedMs: end.at_ms,
    error: textOf(end.data, "error") || textOf(end.data, "why"),
    lost: end.kind === "attempt_lost",
    pauseMs: numberOf(end.data, "retry_ms") ?? 0,
  };
}

function approval(opened: Event, resolved: Event | undefined): Asked {
  return {
    id: textOf(opened.data, "id"),
    openedMs: opened.at_ms,
    decidedMs: resolved?.at_ms ?? null,
    decision: resolved ? textOf(resolved.data, "decision") : "",
    by: resolved ? textOf(resolved.data, "by") : "",
    reason: resolved ? textOf(resolved.data, "reason") : "",
  };
}

// Model calls.

const ANSWERS = new Set(["step_recorded", "task_completed", "task_failed", "task_uncertain", "effect_ruled", "waitpoint_resolved", "timer_fired", "child_ended"]);

function* models(log: readonly Event[], own: number): Iterable<ModelStep> {
  let trigger = log[0]?.at_ms ?? 0;
  let silent = false;
  let repeated = 0;
  /** What has had an answer before: whatever comes after it, the loop may be past it, in a model call. */
  const answered = new Set<string>();
  for (const event of log) {
    const outcome = outcomeIn(event);
    if (event.kind === "taken_over") {
      trigger = event.at_ms;
      repeated += 1;
    } else if (outcome) {
      const step = model(event, outcome, trigger, repeated, own);
      yield step;
      trigger = event.at_ms;
      silent = step.calls.length === 0;
      repeated = 0;
    } else if (event.kind === "started" || (ANSWERS.has(event.kind) && (silent || !answered.has(event.address)))) {
      trigger = event.at_ms;
      repeated = 0;
    }
    if (ANSWERS.has(event.kind)) answered.add(event.address);
  }
}

function model(event: Event, outcome: Fields, startedMs: number, repeated: number, own: number): ModelStep {
  const reply = replyIn(event) ?? {};
  const usage = fields(reply["usage"]);
  return {
    kind: "model",
    from: fromOf(event, own),
    address: event.address,
    seq: event.seq,
    startedMs,
    endedMs: event.at_ms,
    outcome: textOf(outcome, "outcome"),
    repeated,
    text: textOf(reply, "text"),
    reasoning: reasoning(reply["native"]),
    calls: listOf(reply, "tool_calls").map(fields).map((one) => ({ id: textOf(one, "id"), name: textOf(one, "name"), args: shown(one["arguments"]) })),
    model: textOf(reply, "model"),
    tokens: { input: numberOf(usage, "input_tokens") ?? 0, output: numberOf(usage, "output_tokens") ?? 0 },
    costUsd: numberOf(reply, "cost_usd"),
    finish: textOf(reply, "finish_reason"),
    error: textOf(outcome, "message"),
  };
}

/** What a model said to itself, as providers' own replies hold it; empty if it said nothing or keeps it. */
function reasoning(native: unknown): string {
  const parts = listOf(fields(fields(native)["message"] ?? native), "parts").map(fields);
  return parts
    .filter((part) => part["part_kind"] === "thinking")
    .map((part) => textOf(part, "content"))
    .filter(Boolean)
    .join("\n\n");
}

// The rest.

function* inlineSteps(log: readonly Event[], own: number): Iterable<InlineStep> {
  let before = log[0]?.at_ms ?? 0;
  for (const event of log) {
    if (event.kind === "step_recorded" && !outcomeIn(event)) {
      yield { kind: "step", from: fromOf(event, own), address: event.address, seq: event.seq, startedMs: before, endedMs: event.at_ms, value: event.data["value"], error: textOf(event.data, "error") };
    }
    before = event.at_ms;
  }
}

function* gaps(log: readonly Event[]): Iterable<Gap> {
  let before: Event | undefined;
  for (const event of log) {
    if (event.kind === "taken_over" && before) yield { kind: "gap", seq: event.seq, startedMs: before.at_ms, endedMs: event.at_ms };
    before = event;
  }
}

function* news(log: readonly Event[]): Iterable<News> {
  for (const event of log) {
    const text = said(event);
    if (text !== null) yield { kind: "news", seq: event.seq, startedMs: event.at_ms, what: event.kind, text, by: textOf(event.data, "by") };
  }
}

function said(event: Event): string | null {
  const data = event.data;
  switch (event.kind) {
    case "started":
      return shown(data["input"]);
    case "message":
      return textOf(data, "text");
    case "paused":
      return textOf(data, "message") || textOf(data, "reason");
    case "stuck":
      return textOf(data, "explanation") || textOf(data, "message") || textOf(data, "reason");
    case "cancel_requested":
      return textOf(data, "reason");
    case "resumed":
    case "stop_requested":
    case "cancelled":
      return "";
    case "completed": {
      const output = data["output"];
      return shown("result" in fields(output) ? fields(output)["result"] : output);
    }
    case "failed":
      return textOf(data, "error");
    case "signal":
      return `${textOf(data, "name")} = ${shown(data["value"])}`;
    case "timer_set":
      return `until ${new Date(numberOf(data, "due_ms") ?? 0).toISOString().slice(0, 19).replace("T", " ")} UTC`;
    case "waitpoint_opened":
      return "tool" in data ? null : `for ${textOf(data, "kind")} ${textOf(data, "name")}`;
    case "child_started":
      return `${textOf(data, "agent")} as ${textOf(data, "execution")}`;
    case "child_ended":
      return `${textOf(data, "execution")} ${textOf(data, "state")}`;
    case "approval_escalated":
      return `to ${listOf(data, "to").join(", ")}`;
    case "forked":
      return `from ${textOf(data, "origin")}, event ${numberOf(data, "seq") ?? "?"}`;
    default:
      return null;
  }
}
