/** The parts of a page, of which one is shown. Where there is no room for all their names, that one's is in view. */

import { Tabs } from "@base-ui/react/tabs";
import { useEffect, useRef } from "react";

type Props<T extends string> = { label: string; tabs: readonly T[]; words: Readonly<Record<T, string>>; open: T };

export function TabBar<T extends string>({ label, tabs, words, open }: Props<T>) {
  const bar = useRef<HTMLDivElement>(null);
  const at = tabs.indexOf(open);
  useEffect(() => {
    const tab = bar.current?.querySelectorAll<HTMLElement>("[role=tab]")[at];
    if (bar.current && tab) bar.current.scrollLeft = tab.offsetLeft - (bar.current.clientWidth - tab.offsetWidth) / 2;
  }, [at]);
  return (
    <Tabs.List ref={bar} className="relative flex gap-1 overflow-x-auto border-b border-line" aria-label={label}>
      {tabs.map((one) => (
        <Tabs.Tab
          key={one}
          value={one}
          className="-mb-px min-h-10 shrink-0 border-b-2 border-transparent px-3 text-sm font-medium whitespace-nowrap text-quiet hover:text-ink aria-selected:border-accent aria-selected:text-ink"
        >
          {words[one]}
        </Tabs.Tab>
      ))}
    </Tabs.List>
  );
}
