/** What differs between two texts, line by line. Pure, and bounded: very different long texts are told as two blocks. */

export type Piece = { readonly kind: "same" | "left" | "right"; readonly lines: readonly string[] };

const MOST_CELLS = 400_000;

/** The pieces of two texts in order: what both have, what only the left has, what only the right has. */
export function difference(left: string, right: string): Piece[] {
  const [a, b] = [linesOf(left), linesOf(right)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const [onlyA, onlyB] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const middle = onlyA.length * onlyB.length <= MOST_CELLS ? common(onlyA, onlyB) : blocks(onlyA, onlyB);
  return joined([{ kind: "same", lines: a.slice(0, head) }, ...middle, { kind: "same", lines: a.slice(a.length - tail) }]);
}

function linesOf(text: string): string[] {
  return text === "" ? [] : text.split("\n");
}

function blocks(a: readonly string[], b: readonly string[]): Piece[] {
  return [
    { kind: "left", lines: a },
    { kind: "right", lines: b },
  ];
}

/** The longest common run of lines stays; everything else is of one side. */
function common(a: readonly string[], b: readonly string[]): Piece[] {
  const width = b.length + 1;
  const best = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const [down, aside, across] = [best[(i + 1) * width + j] ?? 0, best[i * width + j + 1] ?? 0, best[(i + 1) * width + j + 1] ?? 0];
      best[i * width + j] = a[i] === b[j] ? across + 1 : Math.max(down, aside);
    }
  }
  const found: Piece[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      found.push({ kind: "same", lines: [a[i] ?? ""] });
      i += 1;
      j += 1;
    } else if ((best[(i + 1) * width + j] ?? 0) >= (best[i * width + j + 1] ?? 0)) {
      found.push({ kind: "left", lines: [a[i] ?? ""] });
      i += 1;
    } else {
      found.push({ kind: "right", lines: [b[j] ?? ""] });
      j += 1;
    }
  }
  return [...found, ...blocks(a.slice(i), b.slice(j))];
}

function joined(pieces: readonly Piece[]): Piece[] {
  const found: { kind: Piece["kind"]; lines: string[] }[] = [];
  for (const piece of pieces) {
    if (piece.lines.length === 0) continue;
    const last = found.at(-1);
    if (last?.kind === piece.kind) last.lines.push(...piece.lines);
    else found.push({ kind: piece.kind, lines: [...piece.lines] });
  }
  return found;
}

/** A value as text in which equal values are equal: the names of objects in one order. */
export function canonical(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined ? "" : JSON.stringify(sorted(value), null, 2);
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, each]) => [name, sorted(each)]));
}
