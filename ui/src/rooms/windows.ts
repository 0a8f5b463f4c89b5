/** What a room holds is read in stretches of its ledger's numbers: the API goes forward, and people look backward. Pure. */

export const WINDOW = 400;

export type Slice<T> = { readonly items: readonly T[]; readonly from: number };

/** All that a room holds behind `from`, at least up to `upto`, page by page: a page ends early where it is much text. */
export async function whole<T extends { readonly seq: number }>(page: (after: number) => Promise<readonly T[]>, from: number, upto: number): Promise<readonly T[]> {
  const found: T[] = [];
  for (let after = from; after < upto; ) {
    const more = await page(after);
    const last = more.at(-1);
    if (last === undefined) break;
    found.push(...more);
    after = last.seq;
  }
  return found;
}

/** What stands in a stretch: behind `from`, and up to `upto`. */
export function slice<T extends { readonly seq: number }>(found: readonly T[], from: number, upto: number): Slice<T> {
  return { items: found.filter((one) => one.seq > from && one.seq <= upto), from };
}
