import { describe, expect, it } from "vitest";
import type { Execution } from "../api/client";
import { type Event, type Kind } from "../log/event";
import { storyOf } from "../log/story";
import { literal, testOf } from "./pytest";

function log(...said: [Kind, string, Record<string, unknown>][]): Event[] {
  return said.map(([kind, address, data], at) => ({ seq: at + 1, kind, address, digest: "", data: data as Event["data"], at_ms: at }));
}

function reply(text: string, ...tool_calls: object[]): Record<string, unknown> {
  return { value: { outcome: "replied", requests: 1, reply: { text, tool_calls, finish_reason: "stop", usage: {}, model: "m", cost_usd: null } } };
}

const view = { id: "exe_1", agent: "refund-desk", model: "m", state: "completed", input: "Order\n12", output: { result: "done" } } as unknown as Execution;

describe("a run as a test", () => {
  it("has the replies as recorded, what was decided, and what has to come of it", () => {
    const text = testOf(
      view,
      storyOf(
        log(
          ["started", "", { input: "Order\n12" }],
          ["step_recorded", "turn 1/model", reply("I ask.", { id: "c1", name: "refund", arguments: '{"cents": 5, "now": true}' })],
          ["waitpoint_opened", "turn 1/tool/c1/approval", { id: "a", kind: "approval", tool: "refund", args: { cents: 5 } }],
          ["waitpoint_resolved", "turn 1/tool/c1/approval", { decision: "approve", by: "ann" }],
          ["task_scheduled", "turn 1/tool/c1", { tool: "refund", args: { cents: 5, now: true }, delivery: "at_most_once" }],
          ["task_completed", "turn 1/tool/c1", { value: "ok", attempt: 1 }],
          ["step_recorded", "turn 2/model", reply("done")],
          ["completed", "", { output: { result: "done" } }],
        ),
      ),
    );
    expect(text).toContain('    call("refund", {"cents": 5, "now": True}, text="I ask.", id="c1"),\n    say("done"),');
    expect(text).toContain('    "approve",  # refund');
    expect(text).toContain('def test_refund_desk_goes_as_recorded(tmp_path):');
    expect(text).toContain('"Order\\n12")');
    expect(text).toContain('assert result.output["result"] == "done"');
    expect(text).toContain('        ("refund", {"cents": 5, "now": True}),');
    expect(text).toContain("from perdure.models.scripted import call, say\n");
  });

  it("writes values as Python does, and no trick of a model's as it is", () => {
    expect(literal({ a: [null, true, 1.5, "x\u202e"], b: {} })).toBe('{"a": [None, True, 1.5, "x\\u202e"], "b": {}}');
  });
});
