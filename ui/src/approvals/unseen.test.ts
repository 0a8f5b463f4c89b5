import { describe, expect, it } from "vitest";
import { shown, titled, unseen } from "./unseen";

const all = (...ids: string[]): { id: string }[] => ids.map((id) => ({ id }));

describe("decisions that nobody has seen", () => {
  it("are those that were not shown here, until they are", () => {
    const kept = shown(all("apr_1", "apr_2"), "");
    expect(unseen(all("apr_1", "apr_2", "apr_3"), kept)).toEqual(all("apr_3"));
    expect(unseen(all("apr_3"), shown(all("apr_3"), kept))).toEqual([]);
    expect(unseen(all("apr_1"), "")).toEqual(all("apr_1"));
  });

  it("cost a browser no more than so much, and nothing where nothing is new", () => {
    const many = all(...Array.from({ length: 2_100 }, (_, n) => `apr_${n}`));
    const kept = shown(many, "");
    expect(kept.split(" ")).toHaveLength(2_000);
    expect(unseen(many.slice(-2_000), kept)).toEqual([]);
    expect(shown(many.slice(-1), kept)).toBe(kept);
  });

  it("stand in the title of the tab", () => {
    expect([titled(0), titled(3)]).toEqual(["Perdure", "(3) Perdure"]);
  });
});
