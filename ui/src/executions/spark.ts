/** The bars of a sparkline, as shares of its height. Pure. */

import { count } from "../text/time";

export type Bar = { readonly height: number; readonly bad: number };

/** Heights from 0 to 1 of all and of the bad ones; what is there at all can be seen. */
export function bars(all: readonly number[], bad: readonly number[]): Bar[] {
  const most = Math.max(1, ...all);
  const share = (n: number): number => (n > 0 ? Math.max(n / most, 0.08) : 0);
  return all.map((n, at) => ({ height: share(n), bad: Math.min(share(bad[at] ?? 0), share(n)) }));
}

/** The same in words. */
export function said(all: readonly number[], bad: readonly number[], whole: boolean, span: string): string {
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
  const begun = sum(all);
  if (begun === 0) return `None begun in ${span}`;
  const failed = sum(bad);
  return `${count(begun)}${whole ? "" : "+"} begun in ${span}${failed > 0 ? `, ${count(failed)} of them failed` : ""}`;
}
