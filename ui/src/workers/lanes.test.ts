import { describe, expect, it } from "vitest";
import { gone, limits, type Queue, servedBy, serves, withServed, type Worker } from "./lanes";

const bare: Worker = { worker: "w", name: "bare", lanes: [], functions: [], slots: 0, pid: 0, host: "", machine: "", lock: "" };
const worker: Worker = {
  ...bare,
  worker: "wrk_1",
  name: "one",
  lanes: [
    { agent: "desk", tool: "refund", queue: "money" },
    { agent: "desk", tool: "look_up", queue: "default" },
    { agent: "desk", tool: "ask", queue: "default" },
    { agent: "a", tool: "x", queue: "default" },
  ],
};
const queue: Queue = { name: "money", paused: false, concurrency: 5, rate: 100, per_seconds: 60, backlog: 1, leased: 0, oldest_ms: 1, per_key: 2, changed_by: "" };

describe("workers and queues", () => {
  it("say what a worker serves, by agent and queue", () => {
    expect(serves(worker)).toEqual([
      { agent: "a", tools: ["x"], queue: "default" },
      { agent: "desk", tools: ["ask", "look_up"], queue: "default" },
      { agent: "desk", tools: ["refund"], queue: "money" },
    ]);
    expect(serves(bare)).toEqual([]);
  });

  it("count each worker once for a queue, and list queues that are only served", () => {
    const served = servedBy([worker, { ...worker, worker: "wrk_2", lanes: [{ agent: "desk", tool: "ask", queue: "default" }] }]);
    expect([...served]).toEqual([
      ["money", 1],
      ["default", 2],
    ]);
    expect(withServed([queue], served).map((one) => [one.name, one.backlog])).toEqual([
      ["default", 0],
      ["money", 1],
    ]);
  });

  it("say limits in words", () => {
    expect(limits(queue)).toBe("5 at once, 100 in 60 s, 2 of each key");
    expect(limits({ ...queue, concurrency: null, per_seconds: 1, per_key: null })).toBe("100 a second");
    expect(limits({ ...queue, concurrency: null, rate: null, per_key: null })).toBe("");
  });

  it("name who holds something and is not here", () => {
    expect(gone([worker], [{ worker: "wrk_1", held: 2 }, { worker: "wrk_9", held: 1 }])).toEqual([{ worker: "wrk_9", held: 1 }]);
  });
});
