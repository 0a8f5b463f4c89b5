import { describe, expect, it } from "vitest";
import { ApiError } from "./errors";
import { AT_ONCE, collected, each, jsonl, type Outcome, summed } from "./many";

const GO = { aborted: false };

describe("one thing for many", () => {
  const pages = (size: number, all: number) => async (cursor: string | undefined) => {
    const from = Number(cursor ?? 0);
    const items = Array.from({ length: Math.min(size, all - from) }, (_, at) => from + at);
    return { items, cursor: from + size < all ? String(from + size) : null };
  };

  it("is found page by page, and at most so many", async () => {
    const told: number[] = [];
    expect(await collected(pages(3, 7), { most: 100, signal: GO, told: (n) => told.push(n) })).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(told).toEqual([3, 6, 7]);
    expect(await collected(pages(3, 7), { most: 4, signal: GO })).toEqual([0, 1, 2, 3]);
    expect(await collected(pages(3, 7), { most: 4, signal: { aborted: true } })).toEqual([]);
  });

  it("is done to each, a few at once, and refusals are counted", async () => {
    let under = 0;
    let most = 0;
    const act = async (n: number): Promise<void> => {
      most = Math.max(most, ++under);
      await Promise.resolve();
      under -= 1;
      if (n % 10 === 0) throw new ApiError("ended", "it has ended", 409);
      if (n === 7) throw new ApiError("not_found", "it is gone", 404);
    };
    const outcome = await each(Array.from({ length: 40 }, (_, n) => n), act, { signal: GO });
    expect(outcome).toEqual({ done: 35, refused: { ended: 4, not_found: 1 } });
    expect(most).toBe(AT_ONCE);
    expect(summed(outcome, "cancelled")).toBe("35 cancelled; not done: 4 ended, 1 not found.");
  });

  it("ends with the first error that is no refusal, and begins nothing more", async () => {
    let begun = 0;
    const act = async (): Promise<void> => {
      begun += 1;
      await Promise.resolve();
      throw new ApiError("unreachable", "away", 0);
    };
    await expect(each(Array.from({ length: 40 }, (_, n) => n), act, { signal: GO })).rejects.toThrow("away");
    expect(begun).toBeLessThanOrEqual(AT_ONCE);
  });

  it("stops when it is told to", async () => {
    const signal = { aborted: false };
    const seen: Outcome[] = [];
    const outcome = await each(
      Array.from({ length: 40 }, (_, n) => n),
      async (n) => {
        if (n === 3) signal.aborted = true;
      },
      { signal, told: (so) => seen.push(so) },
    );
    expect(outcome.done).toBeLessThan(40);
    expect(seen.at(-1)).toEqual(outcome);
  });

  it("is written a line each", () => {
    expect(jsonl([{ a: "one\ntwo" }, 1])).toBe('{"a":"one\\ntwo"}\n1\n');
  });
});
