/** What a room holds is read in stretches of its ledger's numbers: the API goes forward, and people look backward. Pure. */

export const WINDOW = 400;

export type Slice<T> = { readonly items: readonly T[]; readonly from: number };

/** What stands in a stretch: behind `from`, and up to `upto`. */
export function slice<T extends { readonly seq: number }>(found: readonly T[], from: number, upto: number): Slice<T> {
  return { items: found.filter((one) => one.seq > from && one.seq <= upto), from };
}
