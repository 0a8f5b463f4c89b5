import { describe, expect, it } from "vitest";
import { type Fields, fieldsOf, limitsOf, problem, same } from "./limits";

const NONE: Fields = { concurrency: "", per_key: "", rate: "", per_seconds: "1" };
const LIMITS = { concurrency: 5, per_key: 2, rate: 100, per_seconds: 60 };

describe("limits as they are typed", () => {
  it("are those of the queue until somebody changes them, and an empty field is no limit", () => {
    expect(limitsOf(fieldsOf(LIMITS))).toEqual(LIMITS);
    const none = { concurrency: null, rate: null, per_seconds: null };
    expect(fieldsOf(none)).toEqual(NONE);
    expect(limitsOf(NONE)).toEqual({ ...none, per_key: null });
    expect(limitsOf({ ...NONE, rate: " 10 ", per_seconds: "" })).toEqual({ ...none, per_key: null, rate: 10, per_seconds: 1 });
  });

  it("are refused before they are sent if no server would take them", () => {
    for (const good of [NONE, fieldsOf(LIMITS), { ...NONE, rate: "1", per_seconds: "0.5" }, { ...NONE, per_seconds: "nonsense" }]) expect(problem(good)).toBe("");
    for (const name of ["concurrency", "per_key", "rate"] as const) {
      for (const text of ["-1", "1.5", "many", "1000001", "1e9"]) expect(problem({ ...NONE, [name]: text })).toMatch(/whole number up to 1,000,000/);
      expect(problem({ ...NONE, [name]: "0" })).toMatch(/pause the queue/);
    }
    for (const text of ["0", "-1", "2678401", "soon"]) expect(problem({ ...NONE, rate: "1", per_seconds: text })).toMatch(/seconds/);
  });

  it("are known to be the same", () => {
    expect(same(LIMITS, { ...LIMITS })).toBe(true);
    expect(same({ ...LIMITS, rate: null, per_seconds: null }, { ...LIMITS, rate: null })).toBe(true);
    expect(same(LIMITS, { ...LIMITS, per_seconds: 1 })).toBe(false);
    expect(same({ concurrency: 1, rate: null, per_seconds: null }, { concurrency: 1, rate: null, per_seconds: null, per_key: null })).toBe(true);
  });
});
