import { describe, expect, it } from "vitest";
import { ago, clock, cost, duration, moment, plural } from "./time";

describe("times as people read them", () => {
  it("says a span in at most two units", () => {
    expect([4, 1_240, 59_940, 59_960, 185_000, 7_800_000, 273_600_000, 3_600_000].map(duration)).toEqual(["4 ms", "1.2 s", "59.9 s", "1 min", "3 min 5 s", "2 h 10 min", "3 d 4 h", "1 h"]);
  });

  it("says how long ago, or how soon, in one unit", () => {
    const now = 1_000_000_000;
    expect([now, now - 12_000, now - 90_000, now - 3 * 86_400_000, now + 180_000].map((at) => ago(at, now))).toEqual(["now", "12 s ago", "1 min ago", "3 d ago", "in 3 min"]);
  });

  it("says which zone a time is in", () => {
    expect(moment(1_796_026_502_417, "utc")).toBe("2026-11-30 08:15:02 UTC");
    expect(clock(1_796_026_502_417, "utc")).toBe("08:15:02.417");
  });

  it("never calls an unknown price nothing", () => {
    expect([null, undefined, 0, 0.0042, 1.2].map(cost)).toEqual(["unknown", "unknown", "$0", "$0.0042", "$1.20"]);
  });

  it("counts one and many", () => {
    expect([plural(1, "call"), plural(2_412, "call")]).toEqual(["1 call", "2,412 calls"]);
  });
});
