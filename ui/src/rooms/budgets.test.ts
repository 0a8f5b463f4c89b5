import { describe, expect, it } from "vitest";
import { type Budget, capsOf, fieldsOf, holdingIn, named, problem, used } from "./budgets";

const BUDGET: Budget = { room: "", agent: "", usd: 5, tokens: null, unpriced_usd: null, spent_usd: 1, spent_tokens: 0, reserved_usd: 0, reserved_tokens: 0, until_ms: 1 };
const NONE = { usd: "", tokens: "", unpriced_usd: "" };

describe("budgets", () => {
  it("hold in a room if they name it or none, and the widest stand first", () => {
    const all = [{ ...BUDGET, room: "r", agent: "b" }, { ...BUDGET, room: "r" }, { ...BUDGET, room: "elsewhere" }, { ...BUDGET, agent: "a" }, BUDGET];
    expect(holdingIn(all, "r").map(named)).toEqual(["all agents in all rooms", "a in all rooms", "all agents in this room", "b in this room"]);
  });

  it("are typed with what they were, and an empty field is no cap", () => {
    expect(fieldsOf(null)).toEqual(NONE);
    expect(fieldsOf({ usd: 0.5, tokens: 7, unpriced_usd: null })).toEqual({ usd: "0.5", tokens: "7", unpriced_usd: "" });
    expect(capsOf({ usd: " 2.50 ", tokens: "", unpriced_usd: "0" })).toEqual({ usd: 2.5, tokens: null, unpriced_usd: 0 });
  });

  it("are refused before they are sent if no server would take them", () => {
    for (const good of [NONE, { ...NONE, usd: "0" }, { ...NONE, tokens: "1000000" }, { ...NONE, usd: "20", unpriced_usd: "0.1" }]) expect(problem(good)).toBe("");
    for (const usd of ["-1", "much", "1e10"]) expect(problem({ ...NONE, usd })).toMatch(/Dollars/);
    for (const tokens of ["-1", "1.5", "many"]) expect(problem({ ...NONE, tokens })).toMatch(/whole number/);
    for (const bad of [{ ...NONE, unpriced_usd: "1" }, { ...NONE, tokens: "5", unpriced_usd: "1" }]) expect(problem(bad)).toMatch(/goes with a cap in dollars/);
  });

  it("count what is under way as spent", () => {
    expect(used(1, 1, 4)).toBe(0.5);
    expect(used(9, 0, 4)).toBe(1);
    expect(used(0, 0, 0)).toBe(1);
  });
});
