import { describe, expect, it } from "vitest";
import type { Event, Kind } from "../../log/event";
import { storyOf } from "../../log/story";
import { graphOf, MOST_BESIDE, MOST_NODES, openAtFirst, type Stage, stagesOf } from "./layout";

function event(seq: number, kind: Kind, address: string, data: Record<string, unknown>, atMs = seq * 10): Event {
  return { seq, kind, address, digest: "", data: data as Event["data"], at_ms: atMs };
}

/** A log of so many turns with so many calls each. */
function agent(turns: number, calls: number): Event[] {
  const log = [event(1, "started", "", { input: "go" })];
  for (let turn = 1; turn <= turns; turn += 1) {
    const reply = { text: "", tool_calls: [], finish_reason: "stop", usage: {}, model: "m", cost_usd: 0 };
    log.push(event(log.length + 1, "step_recorded", `turn ${turn}/model`, { value: { outcome: "replied", requests: 1, reply } }));
    for (let call = 1; call <= calls; call += 1) {
      const address = `turn ${turn}/tool/c${call}`;
      log.push(event(log.length + 1, "task_scheduled", address, { tool: "work", args: {}, delivery: "repeatable" }));
      log.push(event(log.length + 1, call === 2 ? "task_failed" : "task_completed", address, { value: 1, error: "no", attempt: 1 }));
    }
  }
  return log;
}

const stages = (log: Event[], children: Parameters<typeof stagesOf>[3] = []): Stage[] => stagesOf("exe_1", storyOf(log), log, children);

describe("the graph of an execution", () => {
  it("has a turn with its calls side by side below it, and edges between", () => {
    const all = stages(agent(2, 2));
    const graph = graphOf(all, 0, (stage) => openAtFirst(stage, all));
    expect(graph.nodes.map((one) => one.title)).toEqual(["Input", "Turn 1", "work", "work", "Turn 2", "work", "work"]);
    expect(graph.edges).toHaveLength(1 + 2 + 2 + 2);
    const [, turn, left, right] = graph.nodes;
    expect(left?.y).toBe(right?.y);
    expect((left?.x ?? 0) + (right?.x ?? 0)).toBe(2 * (turn?.x ?? 0));
  });

  it("folds a turn into one node that tells the worst of it", () => {
    const graph = graphOf(stages(agent(1, 3)), 0, () => false);
    expect(graph.nodes.map((one) => [one.title, one.note, one.state, one.unfolds])).toEqual([
      ["Input", "", "", ""],
      ["Turn 1", "3 calls", "dead", "turn 1"],
    ]);
  });

  it("never draws more than it may, and says what is before and after", () => {
    const all = stages(agent(400, 2));
    expect(openAtFirst(all[1] as Stage, all)).toBe(false);
    const open = graphOf(all, 0, () => true);
    expect(open.nodes.length).toBeLessThanOrEqual(MOST_NODES);
    expect(open.before + open.after).toBe(401 - 100);
    const next = graphOf(all, all.length - open.after, () => true);
    expect(next.before).toBe(100);
    const wide = graphOf(stages(agent(1, 1_000)), 1, () => true).nodes;
    expect([wide.length, wide.at(-1)?.title]).toEqual([1 + MOST_BESIDE + 1, "976 more"]);
  });

  it("puts a sub-agent into the turn that began it, and counts what is below it", () => {
    const children = [
      { id: "exe_2", parent: "exe_1", address: "turn 1/tool/c1", depth: 1, agent: "helper", state: "running" },
      { id: "exe_3", parent: "exe_2", address: "x", depth: 2, agent: "deep", state: "running" },
    ];
    const [, turn] = stages(agent(1, 1), children);
    expect(turn?.rest.map((one) => [one.kind, one.title, one.note, one.execution])).toEqual([
      ["tool", "work", expect.any(String), ""],
      ["child", "helper", "1 more below it", "exe_2"],
    ]);
  });

  it("puts what a durable function did at the same time side by side", () => {
    const log = [
      event(1, "started", "", { input: "go" }, 0),
      event(2, "child_started", "a/1", { execution: "exe_2", agent: "helper" }, 10),
      event(3, "timer_set", "b/1", { due_ms: 50 }, 11),
      event(4, "timer_fired", "b/1", {}, 50),
      event(5, "child_ended", "a/1", { execution: "exe_2", state: "completed" }, 60),
      event(6, "timer_set", "c/1", { due_ms: 90 }, 70),
    ];
    expect(stages(log).map((one) => [one.title, one.rest.map((each) => each.kind)])).toEqual([
      ["Input", []],
      ["2 side by side", ["child", "timer"]],
      ["Timer", []],
    ]);
  });
});
