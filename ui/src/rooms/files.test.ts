import { describe, expect, it } from "vitest";
import { bytesOf, hex, joined, size } from "./files";

describe("a file of a room", () => {
  it("is one text again, whatever its passages share", () => {
    const text = Array.from({ length: 300 }, (_, n) => `word${n}`).join(" ");
    const passages: string[] = [];
    for (let at = 0; at < text.length; at += 700) passages.push(text.slice(Math.max(0, at - 100), at + 700));
    expect(joined(passages)).toBe(text);
    expect(joined([])).toBe("");
  });

  it("is its bytes again", () => {
    expect([...bytesOf("AAH/")]).toEqual([0, 1, 255]);
    expect(hex(bytesOf("AAH/"))).toBe("0001ff");
  });

  it("has a size that people can read", () => {
    expect([1, 12, 1_200, 5_300_000].map(size)).toEqual(["1 byte", "12 bytes", "1.2 kB", "5.3 MB"]);
  });
});
