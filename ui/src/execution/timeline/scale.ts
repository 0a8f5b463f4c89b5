/**
 * Time as a line on a screen: stretches in which something ran keep their proportions, long ones in which nothing did are
 * squeezed to a mark. Pure.
 */

export type Stretch = { readonly fromMs: number; readonly toMs: number };

export type Squeezed = Stretch & { readonly at: number; readonly width: number };

export type Scale = {
  /** Where a time stands, from 0 to 1. */
  readonly x: (atMs: number) => number;
  readonly squeezed: readonly Squeezed[];
};

/** Part of the line that one squeezed stretch takes, unless there are many of them. */
const MARK = 0.07;
const MOST_MARKS = 0.5;
/** A stretch of nothing is squeezed if it is longer than this part of all that ran, and than a second and a half. */
const LONG = 0.35;
const SHORTEST_MS = 1_500;

/** Make a scale from one time to another, within which some stretches are busy. */
export function scaleOf(fromMs: number, toMs: number, busy: readonly Stretch[]): Scale {
  const end = Math.max(toMs, fromMs + 1);
  const runs = joined(busy, fromMs, end);
  const ranMs = runs.reduce((sum, one) => sum + one.toMs - one.fromMs, 0);
  const limit = Math.max(SHORTEST_MS, ranMs * LONG);
  const idle = between(runs, fromMs, end).filter((one) => one.toMs - one.fromMs > limit);
  const squeezable = runs.length > 0 ? idle : [];
  const mark = squeezable.length > 0 ? Math.min(MARK, MOST_MARKS / squeezable.length) : 0;
  const openMs = end - fromMs - squeezable.reduce((sum, one) => sum + one.toMs - one.fromMs, 0);
  const perMs = openMs > 0 ? (1 - mark * squeezable.length) / openMs : 0;
  const squeezed: Squeezed[] = [];
  let at = 0;
  let lastMs = fromMs;
  for (const one of squeezable) {
    at += (one.fromMs - lastMs) * perMs;
    squeezed.push({ ...one, at, width: mark });
    at += mark;
    lastMs = one.toMs;
  }
  const x = (atMs: number): number => {
    const clamped = Math.min(Math.max(atMs, fromMs), end);
    let found = (clamped - fromMs) * perMs;
    for (const one of squeezed) {
      if (clamped <= one.fromMs) break;
      const insideMs = Math.min(clamped, one.toMs) - one.fromMs;
      found += (insideMs / (one.toMs - one.fromMs)) * one.width - insideMs * perMs;
    }
    return found;
  };
  return { x, squeezed };
}

/** Stretches in order, with those that touch made one. */
function joined(stretches: readonly Stretch[], fromMs: number, toMs: number): Stretch[] {
  const found: Stretch[] = [];
  for (const one of [...stretches].sort((a, b) => a.fromMs - b.fromMs)) {
    const cut = { fromMs: Math.max(one.fromMs, fromMs), toMs: Math.min(one.toMs, toMs) };
    const last = found.at(-1);
    if (cut.toMs < cut.fromMs) continue;
    if (last && cut.fromMs <= last.toMs) found[found.length - 1] = { fromMs: last.fromMs, toMs: Math.max(last.toMs, cut.toMs) };
    else found.push(cut);
  }
  return found;
}

function between(runs: readonly Stretch[], fromMs: number, toMs: number): Stretch[] {
  const found: Stretch[] = [];
  let last = fromMs;
  for (const one of runs) {
    if (one.fromMs > last) found.push({ fromMs: last, toMs: one.fromMs });
    last = Math.max(last, one.toMs);
  }
  if (toMs > last) found.push({ fromMs: last, toMs });
  return found;
}
