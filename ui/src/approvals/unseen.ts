/** Which of the decisions that wait this browser has shown already, as a text that it keeps. Pure. */

const MOST = 2_000;

function idsIn(kept: string): string[] {
  return kept.split(" ").filter(Boolean);
}

/** Those of `open` that are not among what was kept. */
export function unseen<T extends { readonly id: string }>(open: readonly T[], kept: string): T[] {
  const known = new Set(idsIn(kept));
  return open.filter((one) => !known.has(one.id));
}

/** What is kept once these were shown, too; the oldest are forgotten. The same text if there is nothing new. */
export function shown(open: readonly { readonly id: string }[], kept: string): string {
  const fresh = unseen(open, kept).map((one) => one.id);
  return fresh.length === 0 ? kept : [...idsIn(kept), ...fresh].slice(-MOST).join(" ");
}

/** What the tab says: how many are new. */
export function titled(fresh: number): string {
  return fresh > 0 ? `(${fresh}) Perdure` : "Perdure";
}
