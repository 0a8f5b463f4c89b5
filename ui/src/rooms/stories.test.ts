import { describe, expect, it } from "vitest";
import type { Link, Member, Message, Wake } from "./data";
import { actOf, addresses, companies, doneBy, kindOf, threads } from "./stories";
import { slice } from "./windows";

function message(id: string, seq: number, thread = ""): Message {
  return { id, seq, company: "acme", author: "ann", kind: "person", text: id, to: [], thread, at_ms: seq, steered_by: [] };
}

function member(company: string, name = ""): Member {
  return { company, name, state: "joined", on_crash: "resume", changed_ms: 1 };
}

function link(seq: number, kind: string, data: string): Link {
  return { seq, kind, address: "rm_1", digest: "", data, at_ms: seq, hash: "h" };
}

describe("messages", () => {
  it("stand in their threads, where these began", () => {
    const found = threads([message("a", 1), message("b", 2), message("c", 3, "a"), message("d", 4, "task"), message("e", 5, "a")]);
    expect(found.map((one) => [one.root.id, one.replies.map((each) => each.id)])).toEqual([
      ["a", ["c", "e"]],
      ["b", []],
      ["d", []],
    ]);
  });

  it("of a stretch are those of it and no others", () => {
    const found = [1, 5, 6, 9].map((seq) => message(`${seq}`, seq));
    expect(slice(found, 1, 6).items.map((one) => one.seq)).toEqual([5, 6]);
    expect(slice(found, 0, Infinity).items).toHaveLength(4);
  });
});

describe("the ledger", () => {
  it("says who did what, on whose word, and is read whatever stands in it", () => {
    const act = actOf(link(7, "room_act_held", '{"company":"globex","by":"bot","kind":"agent","decision":"approved","on_word_of":"acme/ann","woken_by":"msg_1","asked_by":"ann","execution":"exe_1","why":"x"}'));
    expect(act).toMatchObject({ seq: 7, what: "held", company: "globex", by: "bot", decision: "approved by acme/ann", wokenBy: "msg_1", more: { why: "x" } });
    expect(actOf(link(1, "room_posted", "{nonsense")).company).toBe("");
    expect(actOf(link(1, "room_posted", "null")).what).toBe("posted");
  });

  it("tells what a wake did", () => {
    const acts = [
      actOf(link(1, "room_posted", '{"company":"globex","by":"bot","woken_by":"msg_1"}')),
      actOf(link(2, "room_posted", '{"company":"globex","by":"bot","woken_by":"msg_2"}')),
      actOf(link(3, "room_posted", '{"company":"acme","by":"bot","woken_by":"msg_1"}')),
    ];
    const wake: Wake = { company: "globex", agent: "bot", cause: "msg_1", execution: "", state: null, at_ms: 1 };
    expect(doneBy(wake, acts).map((one) => one.seq)).toEqual([1]);
  });
});

describe("members", () => {
  const members = [member("zeta"), member("acme"), member("acme", "desk"), member("globex"), member("globex", "bot")];

  it("stand by company, one's own first and then the host", () => {
    expect(companies(members, "globex", "acme").map((one) => [one.name, one.agents.map((each) => each.name)])).toEqual([
      ["globex", ["bot"]],
      ["acme", ["desk"]],
      ["zeta", []],
    ]);
  });

  it("can be addressed by their names", () => {
    expect(addresses(members)).toEqual(["acme", "acme/desk", "globex", "globex/bot", "zeta"]);
  });

  it("are agents by their names in their own company", () => {
    expect(kindOf(members, { company: "acme", author: "desk" })).toBe("agent");
    for (const other of [{ company: "globex", author: "desk" }, { company: "acme", author: "ann" }, { company: "acme", author: "" }]) expect(kindOf(members, other)).toBe("person");
  });
});
