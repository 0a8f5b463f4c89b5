import { describe, expect, it } from "vitest";
import { MOST_VIEWS, parsed, withView, without } from "./views";

describe("saved views", () => {
  it("come out of whatever the storage holds", () => {
    expect(parsed("")).toEqual([]);
    expect(parsed("{")).toEqual([]);
    expect(parsed('{"name":"a"}')).toEqual([]);
    expect(parsed('[null, 1, {"name": "", "search": ""}, {"name": "x"}, {"name": "bad", "search": "?state=failed&else=1"}]')).toEqual([
      { name: "bad", search: "?state=failed" },
    ]);
  });

  it("have a name each, and the newest of a name counts", () => {
    const one = withView([], " mine ", "?state=failed");
    expect(one).toEqual([{ name: "mine", search: "?state=failed" }]);
    expect(withView(one, "mine", "?tag=a")).toEqual([{ name: "mine", search: "?tag=a" }]);
    expect(withView(one, "  ", "?tag=a")).toEqual(one);
    expect(without(one, "mine")).toEqual([]);
    expect(parsed(JSON.stringify(one))).toEqual(one);
  });

  it("are so many at most", () => {
    let views = parsed("[]");
    for (let n = 0; n < MOST_VIEWS + 5; n++) views = withView(views, `view ${n}`, "?tag=a");
    expect(views).toHaveLength(MOST_VIEWS);
    expect(views.at(-1)?.name).toBe(`view ${MOST_VIEWS + 4}`);
  });
});
