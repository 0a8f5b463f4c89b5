import { describe, expect, it } from "vitest";
import type { Event, Kind } from "../log/event";
import { storyOf } from "../log/story";
import { compared, type Comparison, stepsOf } from "./align";

class Log {
  readonly events: Event[] = [];

  add(kind: Kind, address = "", data: Record<string, unknown> = {}): this {
    const seq = this.events.length + 1;
    this.events.push({ seq, kind, address, digest: "", data: data as Event["data"], at_ms: seq * 10 });
    return this;
  }

  reply(turn: number, text: string, ...calls: [id: string, args: unknown][]): this {
    const tool_calls = calls.map(([id, args]) => ({ id, name: "work", arguments: JSON.stringify(args) }));
    const reply = { text, tool_calls, finish_reason: "stop", usage: { input_tokens: 3, output_tokens: 4 }, model: "m", cost_usd: 0.5 };
    return this.add("step_recorded", `turn ${turn}/model`, { value: { outcome: "replied", requests: 1, reply } });
  }

  call(turn: number, id: string, args: unknown, value: unknown): this {
    const address = `turn ${turn}/tool/${id}`;
    this.add("task_scheduled", address, { tool: "work", args, delivery: "repeatable" });
    return this.add("task_completed", address, { value, attempt: 1, worker: "w", started_ms: this.events.length * 10 });
  }
}

const between = (left: Log, right: Log): Comparison => compared(stepsOf(storyOf(left.events)), stepsOf(storyOf(right.events)));
const told = (found: Comparison): string[] => found.rows.map((row) => `${row.same ? "=" : row.left ? (row.right ? "~" : "<") : ">"} ${row.key}`);

describe("two executions side by side", () => {
  it("takes calls for the same whatever ids two models gave them, and names in any order", () => {
    const left = new Log().add("started", "", { input: "go" }).reply(1, "", ["a1", { x: 1, y: 2 }]).call(1, "a1", { x: 1, y: 2 }, "ok").reply(2, "done");
    const right = new Log().add("started", "", { input: "go" }).reply(1, "", ["b7", { y: 2, x: 1 }]).call(1, "b7", { y: 2, x: 1 }, "ok").reply(2, "done");
    const found = between(left, right);
    expect(told(found)).toEqual(["= input", "= turn 1/model", "= turn 1/work", "= turn 2/model"]);
    expect(found.first).toBe(-1);
  });

  it("finds where they part, and what only one of them did", () => {
    const left = new Log().add("started", "", { input: "go" }).reply(1, "", ["a", { n: 1 }]).call(1, "a", { n: 1 }, 5).reply(2, "five").add("completed", "", { output: { result: "five" } });
    const right = new Log()
      .add("started", "", { input: "go" })
      .reply(1, "", ["a", { n: 1 }], ["b", { n: 2 }])
      .call(1, "a", { n: 1 }, 5)
      .call(1, "b", { n: 2 }, 6)
      .reply(2, "eleven");
    const found = between(left, right);
    expect(told(found)).toEqual(["= input", "~ turn 1/model", "= turn 1/work", "> turn 1/work #2", "~ turn 2/model", "< end"]);
    expect(found.first).toBe(1);
  });

  it("knows what a fork took over and does not count it as the fork's", () => {
    const origin = new Log().add("started", "", { input: "go" }).reply(1, "hello");
    const fork = new Log().add("started", "", { input: "go" }).reply(1, "hello").add("forked", "", { origin: "exe_0", seq: 2, edits: {}, by: "ann" }).reply(2, "bye");
    const steps = stepsOf(storyOf(fork.events));
    expect(steps.map((one) => one.from)).toEqual(["", "origin", ""]);
    expect(storyOf(fork.events).fork).toEqual({ seq: 3, origin: "exe_0", originSeq: 2, by: "ann" });
    expect(told(between(origin, fork))).toEqual(["= input", "= turn 1/model", "> turn 2/model"]);
  });
});
