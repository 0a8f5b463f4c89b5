import { describe, expect, it } from "vitest";
import type { Summary } from "../api/client";
import { ALL, fits, merged, read, write } from "./filter";

const NOW = 10_000_000;

function one(id: string, state: string, more: Partial<Summary> = {}): Summary {
  return { id, agent: "a", state, reason: null, created_ms: NOW, updated_ms: NOW, finished_ms: null, tags: [], ...more };
}

describe("the list's filter", () => {
  it("is what its address says, whatever stands there", () => {
    const filter = read("?state=failed&agent=desk&tag=a%26b&since=24h&more=1");
    expect(filter).toEqual({ state: "failed", agent: "desk", tag: "a&b", since: "24h" });
    expect(read(write(filter))).toEqual(filter);
    expect(read("?state=gone&since=ever")).toEqual(ALL);
    expect(write(ALL)).toBe("");
  });

  it("holds an execution to all of it", () => {
    expect(fits({ ...ALL, tag: "x", state: "failed" }, one("1", "failed", { tags: ["x"] }), NOW)).toBe(true);
    expect(fits({ ...ALL, tag: "x" }, one("1", "failed"), NOW)).toBe(false);
    expect(fits({ ...ALL, since: "1h" }, one("1", "failed", { created_ms: NOW - 3_600_001 }), NOW)).toBe(false);
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
});
