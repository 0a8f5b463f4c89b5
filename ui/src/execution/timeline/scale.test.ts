import { describe, expect, it } from "vitest";
import { scaleOf } from "./scale";

describe("a scale", () => {
  it("keeps proportions where something ran", () => {
    const { x, squeezed } = scaleOf(0, 1_000, [{ fromMs: 0, toMs: 1_000 }]);
    expect(squeezed).toEqual([]);
    expect([0, 250, 1_000].map(x)).toEqual([0, 0.25, 1]);
  });

  it("squeezes a long time in which nothing ran to a mark", () => {
    const hour = 3_600_000;
    const { x, squeezed } = scaleOf(0, hour + 2_000, [
      { fromMs: 0, toMs: 1_000 },
      { fromMs: hour + 1_000, toMs: hour + 2_000 },
    ]);
    expect(squeezed).toHaveLength(1);
    const [mark] = squeezed;
    expect(mark?.width).toBeLessThan(0.1);
    expect(x(1_000)).toBeCloseTo(mark?.at ?? 0);
    expect(x(hour + 1_000)).toBeCloseTo((mark?.at ?? 0) + (mark?.width ?? 0));
    expect(x(hour + 2_000)).toBeCloseTo(1);
  });

  it("never goes back in time, and stays on the line", () => {
    const busy = [10, 5_000, 90_000, 91_000, 400_000].map((at) => ({ fromMs: at, toMs: at + 900 }));
    const { x } = scaleOf(0, 500_000, busy);
    let last = 0;
    for (let at = 0; at <= 500_000; at += 500) {
      expect(x(at)).toBeGreaterThanOrEqual(last - 1e-9);
      expect(x(at)).toBeLessThanOrEqual(1 + 1e-9);
      last = x(at);
    }
  });

  it("leaves room for what ran, however many times nothing did", () => {
    const busy = Array.from({ length: 300 }, (_, at) => ({ fromMs: at * 100_000, toMs: at * 100_000 + 10 }));
    const { squeezed } = scaleOf(0, 30_000_000, busy);
    expect(squeezed.reduce((sum, one) => sum + one.width, 0)).toBeLessThanOrEqual(0.5 + 1e-9);
  });
});
