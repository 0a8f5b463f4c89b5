import { describe, expect, it } from "vitest";
import { bars, said } from "./spark";

describe("a sparkline", () => {
  it("has its highest bar at the top, and shows the least that there is", () => {
    expect(bars([0, 1, 100], [0, 1, 50])).toEqual([
      { height: 0, bad: 0 },
      { height: 0.08, bad: 0.08 },
      { height: 1, bad: 0.5 },
    ]);
    expect(bars([0, 0], [0, 0])).toEqual([
      { height: 0, bad: 0 },
      { height: 0, bad: 0 },
    ]);
  });

  it("says what it shows, and that it may be more", () => {
    expect(said([1, 2], [0, 1], true, "the last hour")).toBe("3 begun in the last hour, 1 of them failed");
    expect(said([9_000, 1_000], [0, 0], false, "the last 24 hours")).toBe("10,000+ begun in the last 24 hours");
    expect(said([0], [0], true, "the last hour")).toBe("None begun in the last hour");
  });
});
