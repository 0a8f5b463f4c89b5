import { describe, expect, it } from "vitest";
import { planOf } from "../execution/timeline/layout";
import type { Event, Kind } from "./event";
import { storyOf, type Entry, type ModelStep, type ToolStep } from "./story";

let seq = 0;

function event(kind: Kind, atMs: number, address = "", data: Record<string, unknown> = {}): Event {
  seq += 1;
  return { seq, kind, address, digest: "", data: data as Event["data"], at_ms: atMs };
}

function reply(atMs: number, turn: number, calls: string[] = []): Event {
  const value = {
    outcome: "replied",
    requests: 1,
    reply: { text: "hi", tool_calls: calls.map((id) => ({ id, name: "work", arguments: "{}" })), finish_reason: "stop", usage: { input_tokens: 3, output_tokens: 4 }, model: "m", cost_usd: null, native: { parts: [{ part_kind: "thinking", content: "hm" }] } },
  };
  return event("step_recorded", atMs, `turn ${turn}/model`, { value });
}

const log = (...events: Event[]): Event[] => events;
const tools = (entries: readonly Entry[]): ToolStep[] => entries.filter((one): one is ToolStep => one.kind === "tool");
const models = (entries: readonly Entry[]): ModelStep[] => entries.filter((one): one is ModelStep => one.kind === "model");
const TASK = { tool: "work", args: { n: 1 }, delivery: "at_least_once" };

describe("the story of a log", () => {
  it("tells what a model said, thought and used, and when it could begin", () => {
    seq = 0;
    const [first] = models(storyOf(log(event("started", 100, "", { input: "go" }), reply(400, 1, ["c1"]))).entries);
    expect(first).toMatchObject({ startedMs: 100, endedMs: 400, text: "hi", reasoning: "hm", repeated: 0, costUsd: null, tokens: { input: 3, output: 4 } });
    expect(first?.calls).toEqual([{ id: "c1", name: "work", args: "{}" }]);
  });

  it("counts a lost attempt beside the one that worked, and the wait before each", () => {
    seq = 0;
    const story = storyOf(
      log(
        event("started", 0),
        event("task_scheduled", 10, "t", TASK),
        event("attempt_lost", 5_000, "t", { attempt: 1, worker: "w1", why: "its worker vanished", started_ms: 20 }),
        event("task_completed", 6_000, "t", { attempt: 2, worker: "w2", started_ms: 5_500, value: "ok" }),
      ),
    );
    const [step] = tools(story.entries);
    expect(step).toMatchObject({ state: "done", value: "ok", endedMs: 6_000 });
    expect(step?.attempts.map((one) => [one.worker, one.lost])).toEqual([["w1", true], ["w2", false]]);
    expect(planOf(story, null).rows[0]?.bars.map((bar) => [bar.kind, bar.fromMs, bar.toMs])).toEqual([
      ["queue", 10, 20],
      ["lost", 20, 5_000],
      ["queue", 5_000, 5_500],
      ["run", 5_500, 6_000],
    ]);
  });

  it("begins a model call with the first answer of the last call, however late that is", () => {
    seq = 0;
    const late = { attempt: 1, worker: "w", started_ms: 20, value: 7, late: true };
    const story = storyOf(log(event("started", 0), reply(10, 1, ["c1"]), event("task_scheduled", 11, "t", TASK), event("task_completed", 90, "t", late), reply(95, 2)));
    expect(models(story.entries)[1]?.startedMs).toBe(90);
  });

  it("says that nobody knows, until somebody rules", () => {
    seq = 0;
    const lost = log(event("started", 0), event("task_scheduled", 1, "t", TASK), event("task_begun", 2, "t", { claim: "c", attempt: 1 }), event("task_uncertain", 9, "t", { why: "silent", attempt: 1, worker: "w" }));
    expect(tools(storyOf(lost).entries)[0]).toMatchObject({ state: "uncertain", error: "silent", claims: 1 });
    for (const [ruling, state] of [["happened", "done"], ["run", "queued"], ["give_up", "dead"]]) {
      const ruled = [...lost, event("effect_ruled", 20, "t", { ruling, by: "ann", reason: "", value: null })];
      expect(tools(storyOf(ruled).entries)[0]?.state).toBe(state);
    }
  });

  it("tells of a call that a person refused, and of one that they changed", () => {
    seq = 0;
    const asked = (decision: string, more = {}): ToolStep | undefined =>
      tools(storyOf(log(event("started", 0), event("waitpoint_opened", 5, "t/approval", { id: "apr_1", kind: "approval", tool: "pay", args: { n: 1 } }), event("waitpoint_resolved", 50, "t/approval", { decision, by: "ann", reason: "no", ...more }))).entries)[0];
    expect(asked("reject")).toMatchObject({ address: "t", state: "refused", error: "rejected", endedMs: 50 });
    expect(asked("edit", { args: { n: 2 } })).toMatchObject({ state: "queued", args: { n: 2 } });
    expect(asked("approve")?.asked).toMatchObject({ openedMs: 5, decidedMs: 50, by: "ann" });
  });

  it("marks the time in which nothing was alive, and the call that was asked for again", () => {
    seq = 0;
    const story = storyOf(log(event("started", 0), reply(100, 1, ["c"]), event("taken_over", 60_100, "", { fence: 2 }), reply(60_400, 2)));
    expect(story.entries.filter((one) => one.kind === "gap")).toMatchObject([{ startedMs: 100, endedMs: 60_100 }]);
    expect(models(story.entries)[1]).toMatchObject({ repeated: 1, startedMs: 60_100 });
    const plan = planOf(story, null);
    expect(plan.marks).toMatchObject([{ dead: true, text: "1 min nothing alive" }]);
    expect(plan.rows.map((row) => row.reused)).toEqual([true, false]);
  });

  it("shows an attempt that runs now", () => {
    seq = 0;
    const running = new Map([["t", { attempt: 1, worker: "w", startedMs: 30 }]]);
    const story = storyOf(log(event("started", 0), event("task_scheduled", 10, "t", TASK)), running);
    expect(tools(story.entries)[0]).toMatchObject({ state: "running", endedMs: null });
    expect(planOf(story, 100).rows[0]?.bars.at(-1)).toMatchObject({ kind: "run", fromMs: 30, toMs: 100 });
  });
});
