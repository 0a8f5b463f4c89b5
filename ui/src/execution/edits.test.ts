import { describe, expect, it } from "vitest";
import type { Execution } from "../api/client";
import type { ModelStep, ToolStep } from "../log/story";
import { editsOf, given, modelPlace, type Place, problemOf, startPlace, toolPlace } from "./edits";

const agent = { id: "exe_1", model: "scripted/desk", input: "Order 12" } as Execution;
const durable = { id: "exe_2", model: "", input: { who: "ann" } } as unknown as Execution;
const place = (value: unknown): Place => ({ title: "t", at: 4, result: { address: "turn 1/tool/c", label: "Its result", value } });
const sent = (view: Execution, where: Place, more: object) => {
  const before = given(view, where);
  return { problem: problemOf({ ...before, ...more }, before), body: editsOf({ ...before, ...more }, before) };
};
const NOTHING = { prompt: null, input: null, model: null, build: null, results: {} };

describe("what is sent to fork an execution", () => {
  it("is nothing but the place while nothing is changed", () => {
    expect(sent(agent, place({ n: 1 }), {})).toEqual({ problem: "", body: { at: 4, ...NOTHING } });
    expect(sent(durable, startPlace(), {})).toEqual({ problem: "", body: { at: 1, ...NOTHING } });
  });

  it("is a prompt and a model of an agent, an input and a build of a function", () => {
    expect(sent(agent, startPlace(), { input: "Order 13", model: " openai/x " }).body).toEqual({ at: 1, ...NOTHING, prompt: "Order 13", model: "openai/x" });
    expect(sent(durable, startPlace(), { input: '{"who": "bob"}', model: "b2" }).body).toEqual({ at: 1, ...NOTHING, input: { who: "bob" }, build: "b2" });
    expect(sent(durable, startPlace(), { input: "{" }).problem).toBe("The input is not JSON.");
  });

  it("is a result as the text that it was, or as JSON that has to be some", () => {
    expect(sent(agent, place("rain"), { result: "sun" }).body.results).toEqual({ "turn 1/tool/c": "sun" });
    expect(sent(agent, place({ n: 1 }), { result: '{"n": 2}' }).body.results).toEqual({ "turn 1/tool/c": { n: 2 } });
    expect(sent(agent, place({ n: 1 }), { result: "{" }).problem).toBe("Its result: this is not JSON.");
    expect(sent(agent, place(1), { at: "0" }).problem).toMatch("whole number");
  });

  it("does not put megabytes into a field, and changes nothing if that stays empty", () => {
    const where = place("x".repeat(300_000));
    expect(given(agent, where)).toMatchObject({ result: "", of: { left: expect.stringContaining("300.0 kB") } });
    expect(sent(agent, where, {}).body.results).toEqual({});
  });

  it("offers a reply with its calls, and a result only where there is one", () => {
    const step = { address: "turn 1/model", seq: 2, text: "hm", calls: [{ id: "c1", name: "look", args: '{"n": 1}' }] } as unknown as ModelStep;
    expect(modelPlace(step)).toMatchObject({ at: 2, result: { value: { text: "hm", tool_calls: [{ id: "c1", name: "look", arguments: { n: 1 } }] } } });
    expect(modelPlace({ ...step, calls: [] }).result?.value).toBe("hm");
    expect(toolPlace({ tool: "look", address: "a", answerSeq: null } as ToolStep)).toBeNull();
    expect(toolPlace({ tool: "look", address: "a", answerSeq: 7, value: 1, error: "" } as ToolStep)).toMatchObject({ at: 7 });
  });
});
