/**
 * A table of few rows; where there is little room each row is a block of its own, which begins with what it is about and
 * says what each of its other parts is.
 */

import type { ReactNode } from "react";

export type Column<T> = {
  readonly head: string;
  readonly cell: (one: T) => ReactNode;
  /** What stands in it is a number: they are read one below the other. */
  readonly number?: boolean;
  /** It has no head that anybody need see: buttons. */
  readonly bare?: boolean;
};

type Props<T> = { label: string; columns: readonly Column<T>[]; items: readonly T[]; keyOf: (one: T) => string };

export function Table<T>({ label, columns, items, keyOf }: Props<T>) {
  return (
    <div className="overflow-x-auto" tabIndex={0} role="group" aria-label={`${label}, which may be wider than the page`}>
      <table role="table" aria-label={label} className="w-full text-sm max-md:block">
        <thead role="rowgroup" className="max-md:sr-only">
          <tr role="row" className="border-b border-line">
            {columns.map((one) => (
              <th key={one.head} role="columnheader" scope="col" className={`px-4 py-2 text-xs font-medium text-quiet ${one.number ? "text-right" : "text-left"}`}>
                {one.bare ? <span className="sr-only">{one.head}</span> : one.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup" className="max-md:block">
          {items.map((item) => (
            <tr key={keyOf(item)} role="row" className="border-b border-line last:border-b-0 max-md:flex max-md:flex-col max-md:gap-1.5 max-md:px-4 max-md:py-3">
              {columns.map((one, at) => (
                <td
                  key={one.head}
                  role="cell"
                  className={`px-4 py-2.5 align-middle max-md:flex max-md:items-start max-md:justify-between max-md:gap-4 max-md:p-0 ${one.number ? "text-right tabular-nums max-md:text-left" : ""}`}
                >
                  {one.bare || at === 0 ? null : (
                    <span aria-hidden="true" className="w-24 shrink-0 text-xs text-quiet md:hidden">
                      {one.head}
                    </span>
                  )}
                  <div className={`min-w-0 ${one.bare ? "max-md:w-full md:text-right" : at === 0 ? "" : "max-md:text-right"}`}>{one.cell(item)}</div>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
