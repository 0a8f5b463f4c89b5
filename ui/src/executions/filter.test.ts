import { describe, expect, it } from "vitest";
import type { Summary } from "../api/client";
import { ALL, fits, merged, read, searched, told, write } from "./filter";

const NOW = 10_000_000;

function one(id: string, state: string, more: Partial<Summary> = {}): Summary {
  return { id, agent: "a", state, reason: null, created_ms: NOW, updated_ms: NOW, finished_ms: null, tags: [], ...more };
}

describe("the list's filter", () => {
  it("is what its address says, whatever stands there", () => {
    const filter = read("?state=failed&text=order+7&agent=desk&tag=a%26b&since=24h&more=1");
    expect(filter).toEqual({ state: "failed", text: "order 7", agent: "desk", tag: "a&b", since: "24h" });
    expect(read(write(filter))).toEqual(filter);
    expect(read("?state=gone&since=ever&text=++")).toEqual(ALL);
    expect(read(`?text=${"x".repeat(900)}`).text).toHaveLength(200);
    expect(write(ALL)).toBe("");
  });

  it("holds an execution to all of it", () => {
    expect(fits({ ...ALL, tag: "x", state: "failed" }, one("1", "failed", { tags: ["x"] }), NOW)).toBe(true);
    expect(fits({ ...ALL, tag: "x" }, one("1", "failed"), NOW)).toBe(false);
    expect(fits({ ...ALL, since: "1h" }, one("1", "failed", { created_ms: NOW - 3_600_001 }), NOW)).toBe(false);
  });

  it("says in words what it lets through", () => {
    expect(told({ ...ALL, state: "failed", tag: "vip", since: "1h" })).toBe("in state failed, with the tag vip, begun in the last hour");
    expect(told(ALL)).toBe("of whatever kind");
  });
});

describe("news in a list", () => {
  const pages = [
    { items: [one("5", "running"), one("4", "running")], cursor: "4" },
    { items: [one("2", "running")], cursor: null },
  ];
  const ids = (found: { items: readonly Summary[] }[]): string[][] => found.map((page) => page.items.map((each) => `${each.id} ${each.state}`));

  it("brings up to date what stands there, on whichever page", () => {
    expect(ids(merged(ALL, pages, [one("2", "completed"), one("4", "failed")], NOW))).toEqual([["5 running", "4 failed"], ["2 completed"]]);
  });

  it("puts what is new where it belongs, and only that", () => {
    expect(ids(merged(ALL, pages, [one("6", "ready"), one("3", "ready"), one("1", "ready")], NOW))).toEqual([["6 ready", "5 running", "4 running"], ["2 running"]]);
  });

  it("takes out what the filter does not want any more", () => {
    expect(ids(merged({ ...ALL, state: "running" }, pages, [one("5", "completed"), one("7", "failed")], NOW))).toEqual([["4 running"], ["2 running"]]);
  });

  it("fills a list that was empty", () => {
    expect(ids(merged(ALL, [{ items: [], cursor: null }], [one("1", "ready")], NOW))).toEqual([["1 ready"]]);
  });

  it("puts into a search only what can be seen to have the text, and keeps what was found", () => {
    const news = [one("6", "ready"), one("7", "ready", { tags: ["Order 7"] }), one("5", "failed")];
    expect(ids(merged({ ...ALL, text: "order" }, pages, news, NOW))).toEqual([["7 ready", "5 failed", "4 running"], ["2 running"]]);
  });
});

describe("a search", () => {
  it("says how far it looked", () => {
    expect(searched([{ looked_at: 500 }, { looked_at: 500 }], true)).toBe("Looked at the newest 1,000 executions, not at older ones.");
    expect(searched([{ looked_at: 1 }], false)).toBe("Looked at all: 1 execution.");
  });
});
