import { describe, expect, it } from "vitest";
import { beginning, pieces, plain } from "./hostile";
import { blocks, inlines, MOST } from "./blocks";

describe("text of strangers", () => {
  it("shows every character that hides or moves others", () => {
    expect(pieces("pay \u202egro\u202c at a\u200bb")).toEqual([
      { text: "pay ", trick: false },
      { text: "U+202E", trick: true },
      { text: "gro", trick: false },
      { text: "U+202C", trick: true },
      { text: " at a", trick: false },
      { text: "U+200B", trick: true },
      { text: "b", trick: false },
    ]);
    expect(pieces("\u{e0041}")[0]?.text).toBe("U+E0041");
  });

  it("leaves alone what languages and emoji need", () => {
    for (const text of ["שלום", "می‌خواهم", "👩‍👩‍👧", "a\tb\nc"]) expect(pieces(text)).toEqual([{ text, trick: false }]);
  });

  it("puts a text on one line", () => {
    expect(plain("a\n  b\u0007")).toBe("a bU+0007");
  });

  it("cuts no character in two", () => {
    expect(beginning("ab😀c", 3)).toBe("ab");
    expect(beginning("abc", 3)).toBe("abc");
  });
});

describe("markdown of models", () => {
  it("reads what models write", () => {
    const found = blocks("# Title\n\nOne **two** `three`.\n\n- a\n- b\n\n1. c\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n> said\n\n```py\nx = 1\n```\n\n---");
    expect(found.map((one) => one.kind)).toEqual(["heading", "paragraph", "list", "list", "table", "quote", "code", "rule"]);
  });

  it("keeps HTML as the text that it is", () => {
    expect(blocks("<script>alert(1)</script>")).toEqual([{ kind: "paragraph", of: [{ kind: "text", text: "<script>alert(1)</script>" }] }]);
  });

  it("makes of a link or an image its words and its address, and nothing that loads or leads", () => {
    expect(inlines("![p](http://x/p.png) [go](javascript:alert(1))")).toEqual([
      { kind: "link", text: "p", address: "http://x/p.png", image: true },
      { kind: "text", text: " " },
      { kind: "link", text: "go", address: "javascript:alert(1", image: false },
      { kind: "text", text: ")" },
    ]);
  });

  it("comes to an end whatever marks the longest text is made of", { timeout: 60_000 }, () => {
    for (const one of ["[", "`", "*a", "![](", "| ", "_", "**", "> ", "# "]) expect(blocks(one.repeat(MOST / one.length))).not.toEqual([]);
  });

  it("ends a fence that nobody closed at the end", () => {
    expect(blocks("```\nx")).toEqual([{ kind: "code", language: "", text: "x" }]);
  });
});
