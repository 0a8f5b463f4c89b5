/** What opens under a button, and closes when one has chosen, looks elsewhere or goes to another page. */

import { type ReactNode, useEffect, useRef } from "react";
import { useLocation } from "wouter";

type Props = { label: string; summary: ReactNode; className?: string; side: "left" | "right"; children: ReactNode };

export function Drop({ label, summary, className = "", side, children }: Props) {
  const box = useRef<HTMLDetailsElement>(null);
  const [place] = useLocation();
  const close = (): void => {
    if (box.current) box.current.open = false;
  };
  useEffect(close, [place]);
  useEffect(() => {
    const elsewhere = (event: PointerEvent): void => {
      if (event.target instanceof Node && !box.current?.contains(event.target)) close();
    };
    addEventListener("pointerdown", elsewhere);
    return () => removeEventListener("pointerdown", elsewhere);
  }, []);
  return (
    <details
      ref={box}
      className={`relative ${className}`}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        close();
        box.current?.querySelector("summary")?.focus();
      }}
    >
      <summary aria-label={label} title={label} className="flex min-h-8 min-w-8 list-none items-center justify-center gap-2 rounded-md px-1.5 text-sm font-medium text-quiet hover:bg-hover hover:text-ink max-sm:min-h-10 max-sm:min-w-10">
        {summary}
      </summary>
      <div className={`card absolute z-30 mt-1 flex w-64 flex-col gap-1 p-2 text-sm shadow-(--shadow-float) ${side === "right" ? "right-0" : "left-0"}`}>{children}</div>
    </details>
  );
}
