/** What differs between two versions of a definition: part by part, and line by line within a part. Pure. */

export type Line = { readonly kind: "same" | "gone" | "new"; readonly text: string };
export type Part = { readonly name: string; readonly kind: "same" | "gone" | "new" | "changed"; readonly lines: readonly Line[] };

type Spec = Readonly<Record<string, unknown>>;

/** Above so many lines the middle of two texts is not compared line by line: it would take too long. */
const MOST_LINES = 1_500;
const AROUND = 3;

/** The parts of a newer definition against an older one, in the order of the newer; tools each by themselves. */
export function parts(older: Spec, newer: Spec): Part[] {
  const [one, other] = [apart(older), apart(newer)];
  const names = [...new Set([...other.keys(), ...one.keys()])];
  return names.map((name) => {
    const [before, after] = [one.get(name), other.get(name)];
    const all = lines(before === undefined ? "" : before, after === undefined ? "" : after);
    if (before === undefined) return { name, kind: "new", lines: all };
    if (after === undefined) return { name, kind: "gone", lines: all };
    return { name, kind: before === after ? "same" : "changed", lines: all };
  });
}

/** A definition as texts by name: what people wrote as they wrote it, all else as JSON. Empty parts are left out. */
function apart(spec: Spec): Map<string, string> {
  const found = new Map<string, string>();
  const own = (typeof spec["agent"] === "object" && spec["agent"] !== null ? { ...spec, ...(spec["agent"] as Spec), agent: undefined } : spec) as Spec;
  for (const [name, value] of Object.entries(own)) {
    if (name === "tools" && Array.isArray(value)) {
      for (const tool of value as Spec[]) found.set(`tool ${String(tool["name"])}`, text(tool));
    } else if (!empty(value)) {
      found.set(name, text(value));
    }
  }
  return found;
}

function empty(value: unknown): boolean {
  return value === null || value === undefined || value === "" || (typeof value === "object" && Object.keys(value).length === 0);
}

function text(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** Two texts, line by line: those of the older that are gone, those of the newer that are new, and what both have. */
export function lines(older: string, newer: string): Line[] {
  const [a, b] = [older === "" ? [] : older.split("\n"), newer === "" ? [] : newer.split("\n")];
  let from = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from += 1;
  let [aEnd, bEnd] = [a.length, b.length];
  while (aEnd > from && bEnd > from && a[aEnd - 1] === b[bEnd - 1]) [aEnd, bEnd] = [aEnd - 1, bEnd - 1];
  const same = (all: readonly string[]): Line[] => all.map((each) => ({ kind: "same", text: each }));
  return [...same(a.slice(0, from)), ...middle(a.slice(from, aEnd), b.slice(from, bEnd)), ...same(a.slice(aEnd))];
}

/** By the longest common part: a table of its lengths, walked from the beginning. */
function middle(a: readonly string[], b: readonly string[]): Line[] {
  const gone = (all: readonly string[]): Line[] => all.map((each) => ({ kind: "gone", text: each }));
  const fresh = (all: readonly string[]): Line[] => all.map((each) => ({ kind: "new", text: each }));
  if (a.length === 0 || b.length === 0 || a.length > MOST_LINES || b.length > MOST_LINES) return [...gone(a), ...fresh(b)];
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  const at = (i: number, j: number): number => longest[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) longest[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  }
  const found: Line[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      found.push({ kind: "same", text: a[i] ?? "" });
      [i, j] = [i + 1, j + 1];
    } else if (at(i + 1, j) >= at(i, j + 1)) found.push({ kind: "gone", text: a[i++] ?? "" });
    else found.push({ kind: "new", text: b[j++] ?? "" });
  }
  return [...found, ...gone(a.slice(i)), ...fresh(b.slice(j))];
}

export type Shown = Line | { readonly kind: "skipped"; readonly lines: number };

/** The lines that differ, with a few around each, and how many are left out between. */
export function around(all: readonly Line[]): Shown[] {
  const near = all.map((_, at) => all.slice(Math.max(0, at - AROUND), at + AROUND + 1).some((one) => one.kind !== "same"));
  const found: Shown[] = [];
  let skipped = 0;
  for (const [at, line] of all.entries()) {
    if (!near[at]) {
      skipped += 1;
      continue;
    }
    if (skipped > 0) found.push({ kind: "skipped", lines: skipped });
    skipped = 0;
    found.push(line);
  }
  return skipped > 0 ? [...found, { kind: "skipped", lines: skipped }] : found;
}
