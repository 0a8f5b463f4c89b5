import { expect, test } from "vitest";
import { whole } from "./windows";

const HELD = [1, 2, 5, 9].map((seq) => ({ seq }));

test("a stretch is read through pages that end early, and no further than it goes", async () => {
  const asked: number[] = [];
  const page = async (after: number) => {
    asked.push(after);
    return HELD.filter((one) => one.seq > after).slice(0, 1);
  };
  expect(await whole(page, 1, 5)).toEqual([{ seq: 2 }, { seq: 5 }]);
  expect(asked).toEqual([1, 2]);
  expect(await whole(page, 0, 20)).toEqual(HELD);
});
