/** One thing asked for many, as `perdure ... --all` does: found page by page, then each by itself. Not one transaction. */

import { ApiError } from "./errors";

export const AT_ONCE = 6;

export type Outcome = {
  readonly done: number;
  /** How many, by the code of the refusal: they had moved on meanwhile, or must not be touched. */
  readonly refused: Readonly<Record<string, number>>;
};

type Signal = { readonly aborted: boolean };

/** The items of all pages, at most so many; tells after each page how many there are. Ends early when it is stopped. */
export async function collected<T>(
  page: (cursor: string | undefined) => Promise<{ readonly items: readonly T[]; readonly cursor?: string | null }>,
  { most, signal, told }: { most: number; signal: Signal; told?: (n: number) => void },
): Promise<T[]> {
  const found: T[] = [];
  let cursor: string | undefined;
  while (!signal.aborted) {
    const one = await page(cursor);
    found.push(...one.items);
    told?.(Math.min(found.length, most));
    if (!one.cursor || found.length >= most) break;
    cursor = one.cursor;
  }
  return found.slice(0, most);
}

/** Act on each, a few at once. A refusal is counted; any other error ends it, once what is under way has ended. */
export async function each<T>(
  items: readonly T[],
  act: (item: T) => Promise<unknown>,
  { signal, told }: { signal: Signal; told?: (so: Outcome) => void },
): Promise<Outcome> {
  const refused: Record<string, number> = {};
  let done = 0;
  let next = 0;
  const broken: unknown[] = [];
  const one = async (): Promise<void> => {
    while (next < items.length && !signal.aborted && broken.length === 0) {
      const item = items[next++] as T;
      try {
        await act(item);
        done += 1;
      } catch (error) {
        if (!(error instanceof ApiError) || (error.status !== 409 && error.status !== 404)) {
          broken.push(error);
          return;
        }
        refused[error.code] = (refused[error.code] ?? 0) + 1;
      }
      told?.({ done, refused: { ...refused } });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  if (broken.length > 0) throw broken[0];
  return { done, refused };
}

/** `38 cancelled; not done: 2 ended`. */
export function summed({ done, refused }: Outcome, verb: string): string {
  const parts = Object.entries(refused)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([code, n]) => `${n} ${code.replaceAll("_", " ")}`);
  return `${done} ${verb}${parts.length > 0 ? `; not done: ${parts.join(", ")}` : ""}.`;
}

/** One value a line. */
export function jsonl(values: readonly unknown[]): string {
  return values.map((one) => `${JSON.stringify(one)}\n`).join("");
}
