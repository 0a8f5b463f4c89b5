import { describe, expect, it } from "vitest";
import type { Message } from "../api/stream";
import type { Kind } from "./event";
import { Replies } from "./replies";

const A = "turn 1/model";

const delta = (attempt: number, offset: number, text: string, address = A, execution = "exe_1"): Message => ({ kind: "delta", execution, news: { address, attempt, offset, text } });
const event = (kind: Kind, address = ""): Message => ({ kind: "log", execution: "exe_1", items: [{ seq: 2, kind, address, digest: "", data: {}, at_ms: 0 }] });

function texts(...messages: Message[]): string[] {
  const replies = new Replies("exe_1");
  for (const message of messages) replies.take(message);
  return replies.all().map((one) => `${one.attempt}: ${one.text}`);
}

describe("a reply in the making", () => {
  it("grows by its pieces, whatever other executions say", () => {
    expect(texts(delta(1, 0, "Hel"), delta(1, 0, "no", A, "exe_2"), delta(1, 3, "lo"))).toEqual(["1: Hello"]);
  });

  it("is replaced by the next attempt", () => {
    expect(texts(delta(1, 0, "Hello"), delta(2, 0, ""), delta(2, 0, "Good "), delta(2, 5, "day"))).toEqual(["2: Good day"]);
  });

  it("is not shown from its middle on", () => {
    expect(texts(delta(1, 3, "lo"))).toEqual([]);
    expect(texts(delta(1, 0, "Hello"), delta(2, 3, "day"))).toEqual(["1: Hello"]);
  });

  it("ends with its record, and with whatever ends the asking", () => {
    expect(texts(delta(1, 0, "Hello"), event("step_recorded", "turn 2/model"))).toEqual(["1: Hello"]);
    for (const end of [event("step_recorded", A), event("taken_over"), event("paused"), event("failed")]) {
      expect(texts(delta(1, 0, "Hello"), end)).toEqual([]);
    }
  });

  it("begins anew on a new connection, and says when it is only seen elsewhere", () => {
    expect(texts(delta(1, 0, "Hello"), { kind: "ready" })).toEqual([]);
    const replies = new Replies("exe_1");
    replies.take(delta(1, 0, "Hello"));
    expect(replies.take({ kind: "reset", execution: "exe_1", news: { why: "elsewhere" } })).toBe(true);
    expect([replies.all(), replies.elsewhere]).toEqual([[], true]);
    replies.take(delta(2, 0, "Here"));
    expect(replies.elsewhere).toBe(false);
  });
});
