/** Two texts as one: lines that only the left or the right has are marked by a sign and a colour, and what is equal is folded. */

import { useMemo, useState } from "react";
import { Button } from "../design/Button";
import { difference, type Piece } from "./diff";
import { beginning, size } from "./hostile";
import { Long, Plain } from "./Text";

const AROUND = 3;
const MOST_LINES = 200;
const MOST_LINE = 2_000;
/** Beyond that the two are shown whole, one below the other. */
const MOST_TEXT = 400_000;

const LOOKS = {
  same: { sign: " ", said: "", tone: "text-quiet" },
  left: { sign: "−", said: "only left: ", tone: "toned tone-bad border-0" },
  right: { sign: "+", said: "only right: ", tone: "toned tone-good border-0" },
} as const;

export function Diff({ left, right, label }: { left: string; right: string; label: string }) {
  if (left.length + right.length > MOST_TEXT) {
    return (
      <div className="flex flex-col gap-2">
        <p className="text-sm text-quiet">
          Too long to compare line by line: {size(left)} and {size(right)}.
        </p>
        <Long text={left} label={`${label}, left`} />
        <Long text={right} label={`${label}, right`} />
      </div>
    );
  }
  return <Lines left={left} right={right} label={label} />;
}

type Line = { readonly kind: Piece["kind"]; readonly text: string } | { readonly kind: "fold"; readonly lines: number };

function Lines({ left, right, label }: { left: string; right: string; label: string }) {
  const [whole, show] = useState(false);
  const lines = useMemo(() => folded(difference(left, right), whole), [left, right, whole]);
  const shown = whole ? lines : lines.slice(0, MOST_LINES);
  return (
    <div className="flex flex-col items-start gap-2">
      <div tabIndex={0} role="region" aria-label={label} className="max-h-[28rem] w-full overflow-auto rounded-md bg-sunken py-2 font-mono text-sm">
        {shown.map((one, at) =>
          one.kind === "fold" ? (
            <p key={at} className="px-3 py-1 text-faint">
              … {one.lines} equal lines
            </p>
          ) : (
            <p key={at} className={`flex gap-2 px-3 whitespace-pre-wrap ${LOOKS[one.kind].tone}`}>
              <span aria-hidden="true" className="w-3 shrink-0 select-none">
                {LOOKS[one.kind].sign}
              </span>
              <span className="min-w-0">
                <span className="sr-only">{LOOKS[one.kind].said}</span>
                <Plain text={beginning(one.text, MOST_LINE)} />
              </span>
            </p>
          ),
        )}
      </div>
      {!whole && (lines.length > shown.length || lines.some((one) => one.kind === "fold")) ? <Button onClick={() => show(true)}>Show all lines</Button> : null}
    </div>
  );
}

function folded(pieces: readonly Piece[], whole: boolean): Line[] {
  const last = pieces.length - 1;
  return pieces.flatMap((piece, at): Line[] => {
    const lines = piece.lines.map((text): Line => ({ kind: piece.kind, text }));
    if (piece.kind !== "same" || whole) return lines;
    const [before, after] = [at === 0 ? 0 : AROUND, at === last ? 0 : AROUND];
    const hidden = lines.length - before - after;
    if (hidden < 3) return lines;
    return [...lines.slice(0, before), { kind: "fold", lines: hidden }, ...(after ? lines.slice(-after) : [])];
  });
}
