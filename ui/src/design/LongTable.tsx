/** A table of any length: the rows that are seen are laid out, and the rest is room above and below them. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef } from "react";

type Props = {
  label: string;
  heads: readonly string[];
  count: number;
  /** How high a row is at first, in pixels; each is measured when it is seen. */
  height: number;
  /** The least width of the table, as a class. */
  wide: string;
  keyOf: (at: number) => string;
  /** The rows, mostly one, of what stands there: `<tr>`s. */
  row: (at: number) => ReactNode;
  /** What is to be seen, or -1. */
  sought?: number;
};

export function LongTable({ label, heads, count, height, wide, keyOf, row, sought = -1 }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({ count, getScrollElement: () => box.current, estimateSize: () => height, overscan: 10, getItemKey: keyOf });
  useEffect(() => {
    if (sought < 0) return;
    box.current?.scrollIntoView({ block: "nearest" });
    rows.scrollToIndex(sought, { align: "center" });
  }, [rows, sought]);
  const seen = rows.getVirtualItems();
  const above = seen[0]?.start ?? 0;
  const below = rows.getTotalSize() - (seen.at(-1)?.end ?? 0);
  return (
    <div ref={box} className="max-h-[75dvh] min-h-24 overflow-auto" tabIndex={0} role="region" aria-label={label}>
      <table aria-rowcount={count + 1} className={`w-full border-separate border-spacing-0 text-sm ${wide}`}>
        <thead className="sticky top-0 z-10 bg-card">
          <tr aria-rowindex={1} className="text-left text-xs text-quiet">
            {heads.map((name) => (
              <th key={name} scope="col" className="border-b border-line px-3 py-2 font-medium whitespace-nowrap">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <Room height={above} />
        {seen.map((one) => (
          <tbody key={one.key} ref={rows.measureElement} data-index={one.index}>
            {row(one.index)}
          </tbody>
        ))}
        <Room height={below} />
      </table>
    </div>
  );
}

function Room({ height }: { height: number }) {
  if (height <= 0) return null;
  return (
    <tbody aria-hidden="true">
      <tr>
        <td style={{ height }} className="p-0" />
      </tr>
    </tbody>
  );
}
