/** When what happened: a picture, and the same as a table for whoever reads rather than looks. */

import { useEffect, useMemo, useRef, useState } from "react";
import { LongTable } from "../design/LongTable";
import { Empty } from "../design/States";
import { Exact, useNow } from "../design/Time";
import type { Story } from "../log/story";
import { Plain } from "../text/Text";
import { duration } from "../text/time";
import { draw, HEAD, type Look, placed, ROW, type Window } from "./timeline/draw";
import { type Plan, planOf } from "./timeline/layout";

export function Timeline({ story, ended, show }: { story: Story; ended: boolean; show: (address: string) => void }) {
  const now = useNow();
  const plan = useMemo(() => planOf(story, ended ? null : now), [story, ended, ended ? 0 : now]);
  if (plan.rows.length === 0) {
    return (
      <div className="card">
        <Empty icon="clock" title="Nothing has run yet" />
      </div>
    );
  }
  return (
    <div className="flex flex-col gap-4">
      <Legend plan={plan} />
      <Picture plan={plan} show={show} />
      <Table plan={plan} show={show} />
    </div>
  );
}

const LEGEND = [
  ["bg-accent", "Model"],
  ["bg-run", "Tool runs"],
  ["bg-wait opacity-75", "Waits in its queue"],
  ["bg-hold", "Waits for a person"],
  ["bg-bad", "Failed attempt"],
] as const;

function Legend({ plan }: { plan: Plan }) {
  return (
    <ul className="flex flex-wrap gap-x-4 gap-y-1 text-sm text-quiet" aria-label="Legend">
      {LEGEND.map(([colour, word]) => (
        <li key={word} className="flex items-center gap-1.5">
          <span aria-hidden="true" className={`size-3 rounded-sm ${colour}`} /> {word}
        </li>
      ))}
      <li>Hatched red: lost with its worker</li>
      {plan.gaps.length > 0 ? <li>Hatched: recorded before a crash, and not done again</li> : null}
      {plan.marks.length > 0 ? <li>Bands: times in which nothing ran, squeezed</li> : null}
    </ul>
  );
}

const MOST_HEIGHT = 520;

function Picture({ plan, show }: { plan: Plan; show: (address: string) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [top, setTop] = useState(0);
  const [chosen, choose] = useState(-1);
  const [tip, setTip] = useState<{ x: number; y: number; text: string } | null>(null);
  const whole = HEAD + plan.rows.length * ROW;
  const view: Window = { width, height: Math.min(whole, MOST_HEIGHT), top, labels: width < 560 ? 92 : 170, chosen };
  const scheme = useScheme();

  useEffect(() => {
    if (!box.current) return;
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);

  useEffect(() => {
    const on = canvas.current?.getContext("2d");
    if (!on || !canvas.current || width === 0) return;
    const ratio = devicePixelRatio || 1;
    canvas.current.width = view.width * ratio;
    canvas.current.height = view.height * ratio;
    on.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(on, plan, lookOf(canvas.current), view);
  }, [plan, width, top, chosen, scheme, view.height]);

  const rowAt = (event: React.MouseEvent): number => {
    const y = event.nativeEvent.offsetY - HEAD + top;
    return y < 0 ? -1 : Math.floor(y / ROW);
  };
  const point = (event: React.MouseEvent): void => {
    const at = rowAt(event);
    const row = plan.rows[at];
    const x = placed(plan, view);
    const bar = row?.bars.find((one) => event.nativeEvent.offsetX >= x(one.fromMs) - 2 && event.nativeEvent.offsetX <= Math.max(x(one.toMs), x(one.fromMs) + 4) + 2);
    choose(row ? at : -1);
    setTip(row && bar ? { x: event.nativeEvent.offsetX, y: event.nativeEvent.offsetY, text: `${row.label}: ${bar.text}` } : null);
  };

  return (
    <div ref={box} className="card relative overflow-hidden" aria-hidden="true">
      <div className="overflow-y-auto" style={{ maxHeight: MOST_HEIGHT }} onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
        <div style={{ height: whole }}>
          <canvas
            ref={canvas}
            data-rows={plan.rows.length}
            className="sticky top-0 block cursor-pointer"
            style={{ width: view.width, height: view.height }}
            onMouseMove={point}
            onMouseLeave={() => {
              setTip(null);
              choose(-1);
            }}
            onClick={(event) => {
              const row = plan.rows[rowAt(event)];
              if (row) show(row.address);
            }}
          />
        </div>
      </div>
      {tip ? (
        <p className="card pointer-events-none absolute z-10 px-2 py-1 text-xs shadow-(--shadow-float)" style={{ left: Math.min(tip.x + 12, Math.max(0, width - 240)), top: tip.y + 14 }}>
          {tip.text}
        </p>
      ) : null}
    </div>
  );
}

/** Redraw when the look changes: a canvas knows no style sheets. */
function useScheme(): number {
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const again = (): void => setTurn((one) => one + 1);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const watch = new MutationObserver(again);
    watch.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    dark.addEventListener("change", again);
    void document.fonts.ready.then(again);
    return () => {
      watch.disconnect();
      dark.removeEventListener("change", again);
    };
  }, []);
  return turn;
}

function lookOf(element: HTMLElement): Look {
  const read = (name: string): string => {
    element.style.color = `var(--color-${name})`;
    return getComputedStyle(element).color;
  };
  const look: Look = {
    model: read("accent"),
    run: read("run"),
    failed: read("bad"),
    lost: read("bad"),
    queue: read("wait"),
    asked: read("hold"),
    pause: read("edge"),
    step: read("run"),
    line: read("line"),
    ink: read("ink"),
    quiet: read("quiet"),
    card: read("card"),
    sunken: read("hover"),
    hold: read("hold"),
    dead: read("bad"),
    font: getComputedStyle(document.body).fontFamily,
  };
  element.style.color = "";
  return look;
}

function Table({ plan, show }: { plan: Plan; show: (address: string) => void }) {
  const [open, setOpen] = useState(false);
  return (
    <details className="card" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="px-4 py-2.5 text-sm font-medium">The same as a table</summary>
      {open ? <Lines plan={plan} show={show} /> : null}
    </details>
  );
}

const CELL = "border-b border-line px-3 py-1.5 whitespace-nowrap";

function Lines({ plan, show }: { plan: Plan; show: (address: string) => void }) {
  const lines = useMemo(() => plan.rows.flatMap((row) => row.bars.map((bar, at) => ({ row, bar, at }))), [plan]);
  const line = (index: number): React.ReactNode => {
    const one = lines[index];
    if (!one) return null;
    const { row, bar, at } = one;
    return (
      <tr aria-rowindex={index + 2}>
        <td className={CELL}>
          {at === 0 ? (
            <button type="button" className="text-left font-mono hover:underline" onClick={() => show(row.address)}>
              <Plain text={row.label} />
            </button>
          ) : null}
        </td>
        <td className={CELL}>
          {bar.text.split(", ").slice(0, -1).join(", ")}
          {row.reused ? ", recorded before a crash and not done again" : ""}
        </td>
        <td className={`${CELL} text-quiet`}>
          <Exact atMs={bar.fromMs} precise />
        </td>
        <td className={`${CELL} text-quiet tabular-nums`}>{duration(bar.toMs - bar.fromMs)}</td>
      </tr>
    );
  };
  return (
    <div className="border-t border-line">
      <LongTable label="Timeline as a table" heads={["Step", "What", "From", "For"]} count={lines.length} height={33} wide="min-w-[40rem]" keyOf={(at) => `${lines[at]?.row.address} ${lines[at]?.at}`} row={line} />
    </div>
  );
}
