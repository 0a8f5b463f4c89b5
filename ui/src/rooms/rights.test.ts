import { describe, expect, it } from "vitest";
import { inWords } from "./rights";

const words = (rule: Record<string, unknown>) => inWords({ rules: [{ name: "r", then: "allow", ...rule }] }, "acme").rules[0];

describe("rights", () => {
  it("are said as sentences, in their order, with whose yes is waited for", () => {
    const said = inWords(
      {
        rules: [
          { name: "orders", then: "hold", acts: ["create_task"], who: "globex/planner", to: "acme", by: { role: "buyers", quorum: 2, expires_seconds: 86_400 } },
          { name: "quiet", then: "refuse", acts: ["post"], who: "globex/planner", steered: true },
        ],
        roles: { buyers: ["bob", "bea", "ben"] },
      },
      "acme",
    );
    expect(said.rules).toEqual([
      { name: "orders", then: "hold", what: "globex/planner opens a task, for acme or naming it", whose: "2 people of acme in the role buyers, within 1 d", unknown: [] },
      { name: "quiet", then: "refuse", what: "globex/planner says something, after it was shown text of others, of a file or of a tool", whose: "", unknown: [] },
    ]);
    expect(said.roles).toEqual([["buyers", ["bob", "bea", "ben"]]]);
  });

  it("mean everything that a rule does not name", () => {
    expect(words({})).toMatchObject({ what: "any agent does anything", whose: "" });
    expect(words({ then: "hold" })?.whose).toBe("somebody of acme, within 7 d");
    expect(words({ then: "hold", by: { company: "globex" } })?.whose).toBe("somebody of globex, within 7 d");
    expect(words({ then: "allow", by: { quorum: 2 } })?.whose).toBe("");
  });

  it("read `to` as the act does, and join acts and conditions", () => {
    expect(words({ acts: ["update_task"], to: "cancel" })?.what).toBe("any agent changes a task, by cancel");
    expect(words({ acts: ["call_tool", "spend"], to: "order", above: 500 })?.what).toBe("any agent calls a tool or spends money, with the tool order, of more than $500");
    expect(words({ acts: ["post", "remember", "share_file"], private: false })?.what).toBe("any agent says something, keeps a line in memory or shares a file, having been shown no lines that not all may read whom it tells");
  });

  it("hide nothing that they do not understand", () => {
    expect(words({ then: "delay", hours: [9, 17] })).toMatchObject({ then: null, unknown: ["hours"] });
    expect(words({ acts: ["fly_away"] })?.what).toBe("any agent fly away");
    for (const nothing of [null, 7, [], "x", { rules: 7, roles: null }]) expect(inWords(nothing, "acme")).toEqual({ rules: [], roles: [] });
  });
});
