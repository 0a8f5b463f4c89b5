import { describe, expect, it } from "vitest";
import { Frames } from "./frames";

const TEXT = 'retry: 1000\n\n: beat\n\nid: exe_1:1\nevent: log\ndata: {"a":1}\n\nevent: ready\r\ndata: {}\r\n\r\n';

describe("the stream's frames", () => {
  it("are the same wherever the text was cut", () => {
    const whole = [
      { kind: "log", data: '{"a":1}' },
      { kind: "ready", data: "{}" },
    ];
    for (let size = 1; size <= TEXT.length; size++) {
      const frames = new Frames();
      const found = [];
      for (let at = 0; at < TEXT.length; at += size) found.push(...frames.take(TEXT.slice(at, at + size)));
      expect(found).toEqual(whole);
    }
  });

  it("are never given out unfinished", () => {
    expect(new Frames().take("event: log\ndata: {}\n")).toEqual([]);
  });
});
