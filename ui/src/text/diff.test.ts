import { describe, expect, it } from "vitest";
import { canonical, difference } from "./diff";

const told = (left: string, right: string): string[] => difference(left, right).map((one) => `${one.kind}: ${one.lines.join("|")}`);

describe("the difference of two texts", () => {
  it("keeps what both have and tells what one has alone", () => {
    expect(told("a\nb\nc\nd", "a\nx\nc\nd\ne")).toEqual(["same: a", "left: b", "right: x", "same: c|d", "right: e"]);
    expect(told("same", "same")).toEqual(["same: same"]);
    expect(told("", "new")).toEqual(["right: new"]);
    expect(told("old", "")).toEqual(["left: old"]);
  });

  it("does not compare line with line what is too long for it", () => {
    const [left, right] = ["l", "r"].map((side) => Array.from({ length: 5_000 }, (_, at) => `${side}${at}`).join("\n"));
    expect(difference(`a\n${left}\nz`, `a\n${right}\nz`).map((one) => [one.kind, one.lines.length])).toEqual([["same", 1], ["left", 5_000], ["right", 5_000], ["same", 1]]);
  });

  it("takes objects for equal whatever the order of their names", () => {
    expect(canonical({ b: [{ d: 1, c: 2 }], a: null })).toBe(canonical({ a: null, b: [{ c: 2, d: 1 }] }));
    expect(canonical("text")).toBe("text");
    expect(canonical(undefined)).toBe("");
  });
});
