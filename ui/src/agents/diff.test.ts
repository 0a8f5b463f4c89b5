import { describe, expect, it } from "vitest";
import { around, lines, parts } from "./diff";

const marks = { same: " ", gone: "-", new: "+" } as const;
const drawn = (older: string, newer: string): string[] => lines(older, newer).map((one) => marks[one.kind] + one.text);

describe("lines of two texts", () => {
  it("are what both have, what is gone and what is new", () => {
    expect(drawn("a\nb\nc", "a\nx\nc")).toEqual([" a", "-b", "+x", " c"]);
    expect(drawn("a\nb\nc\nd", "b\nd\ne")).toEqual(["-a", " b", "-c", " d", "+e"]);
    expect(drawn("", "a")).toEqual(["+a"]);
    expect(drawn("a", "")).toEqual(["-a"]);
    expect(drawn("a\na", "a")).toEqual([" a", "-a"]);
    expect(drawn("same", "same")).toEqual([" same"]);
  });

  it("give each text back, whatever the two are", () => {
    const letters = "abcab".split("");
    for (let n = 0; n < 200; n++) {
      const make = (seed: number): string => Array.from({ length: seed % 9 }, (_, at) => letters[(seed * 7 + at * at * 3) % 5]).join("\n");
      const [older, newer] = [make(n), make(n * 13 + 5)];
      const found = lines(older, newer);
      expect(found.filter((one) => one.kind !== "new").map((one) => one.text).join("\n")).toBe(older);
      expect(found.filter((one) => one.kind !== "gone").map((one) => one.text).join("\n")).toBe(newer);
    }
  });

  it("are bounded in what they cost", () => {
    const many = (word: string): string => Array.from({ length: 20_000 }, (_, n) => `${word} ${n}`).join("\n");
    expect(lines(many("a"), many("b"))).toHaveLength(40_000);
  });
});

describe("two versions of a definition", () => {
  it("differ part by part, and tools each by themselves", () => {
    const older = { name: "desk", model: "a", instructions: "Help.\nBe kind.", tools: [{ name: "x", queue: "q" }, { name: "old" }], settings: {} };
    const newer = { name: "desk", model: "b", instructions: "Help.\nBe brief.", tools: [{ name: "x", queue: "q" }, { name: "new" }], base_url: null };
    expect(parts(older, newer).map((one) => `${one.name}: ${one.kind}`)).toEqual(["name: same", "model: changed", "instructions: changed", "tool x: same", "tool new: new", "tool old: gone"]);
  });

  it("are looked into where the agent lives in a room", () => {
    const one = { kind: "wake", on_crash: "resume", agent: { name: "g", model: "a" } };
    expect(parts(one, { ...one, agent: { name: "g", model: "b" } }).map((each) => `${each.name}: ${each.kind}`)).toEqual(["kind: same", "on_crash: same", "name: same", "model: changed"]);
  });
});

describe("what is shown of a long part", () => {
  it("is what differs with a few lines around it, and how much is left out", () => {
    const all = lines(Array.from({ length: 20 }, (_, n) => `${n}`).join("\n"), Array.from({ length: 20 }, (_, n) => (n === 10 ? "x" : `${n}`)).join("\n"));
    expect(around(all).map((one) => (one.kind === "skipped" ? `… ${one.lines}` : one.text))).toEqual(["… 7", "7", "8", "9", "10", "x", "11", "12", "13", "… 6"]);
    expect(around([])).toEqual([]);
  });
});
