import { describe, expect, it } from "vitest";
import type { Event, Kind } from "../log/event";
import { storyOf } from "../log/story";
import { figuresOf, partsOf } from "./figures";

const TASK = { tool: "track", args: { parcel: "P-1" }, delivery: "repeatable" };
const REPLY = { value: { outcome: "replied", requests: 1, reply: { text: "", tool_calls: [{ id: "c", name: "track", arguments: "{}" }], finish_reason: "tool_call" } } };

function log(...rows: [Kind, number, string, Record<string, unknown>][]): Event[] {
  return rows.map(([kind, atMs, address, data], at) => ({ seq: at + 1, kind, address, digest: "", data: data as Event["data"], at_ms: atMs }));
}

const KILLED = log(
  ["started", 0, "", { input: "go" }],
  ["step_recorded", 500, "turn 1/model", REPLY],
  ["task_scheduled", 510, "turn 1/track", TASK],
  ["attempt_lost", 1_800, "turn 1/track", { attempt: 1, worker: "wrk_1", started_ms: 520, why: "silent" }],
  ["task_completed", 4_000, "turn 1/track", { attempt: 2, worker: "wrk_2", started_ms: 2_400, value: "here" }],
);

describe("the crash demo's run", () => {
  it("has its steps in order, with those to come, and a kill where the run was", () => {
    const parts = partsOf(storyOf(KILLED), 5, [900]);
    expect(parts.map((one) => [one.label, one.state, one.worker, one.kills])).toEqual([
      ["Model, turn 1", "recorded", "", 0],
      ["track P-1", "recorded", "wrk_2", 1],
      ["", "next", "", 0],
      ["", "next", "", 0],
      ["", "next", "", 0],
    ]);
  });

  it("says what waits and what runs, and marks a kill at what had not begun", () => {
    const begun = KILLED.slice(0, 3);
    const running = new Map([["turn 1/track", { attempt: 1, worker: "wrk_1", startedMs: 520 }]]);
    expect(partsOf(storyOf(begun), 3, []).map((one) => one.state)).toEqual(["recorded", "queued", "next"]);
    expect(partsOf(storyOf(begun, running), 3, []).map((one) => one.state)).toEqual(["recorded", "running", "next"]);
    expect(partsOf(storyOf(begun.slice(0, 2)), 3, [505, 506]).map((one) => one.kills)).toEqual([0, 2, 0]);
    expect(partsOf(storyOf(KILLED), 2, [9_000]).map((one) => one.kills)).toEqual([0, 1]);
  });

  it("counts what its log holds, and finds what was done again", () => {
    expect(figuresOf(KILLED)).toEqual({ recorded: 2, again: 0, cut: 1 });
    const twice = [...KILLED, ...log(["step_recorded", 5_000, "turn 1/model", REPLY], ["attempt_lost", 5_001, "turn 1/track", { attempt: 3 }])];
    expect(figuresOf(twice)).toEqual({ recorded: 2, again: 2, cut: 2 });
  });
});
