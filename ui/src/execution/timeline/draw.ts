/** The timeline's picture. Draws what stands in a window of rows, whatever the number of rows is. */

import type { Bar, BarKind, Plan, Row } from "./layout";

export type Look = Record<BarKind | "line" | "ink" | "quiet" | "card" | "sunken" | "hold" | "dead", string> & { readonly font: string };

export const ROW = 30;
export const HEAD = 28;

export type Window = { readonly width: number; readonly height: number; readonly top: number; readonly labels: number; readonly chosen: number };

export function draw(on: CanvasRenderingContext2D, plan: Plan, look: Look, view: Window): void {
  on.clearRect(0, 0, view.width, view.height);
  on.font = `12px ${look.font}`;
  on.textBaseline = "middle";
  const x = placed(plan, view);
  marks(on, plan, look, view);
  const first = Math.max(0, Math.floor(view.top / ROW));
  const last = Math.min(plan.rows.length, Math.ceil((view.top + view.height) / ROW));
  for (let at = first; at < last; at++) {
    const one = plan.rows[at];
    if (one) row(on, one, HEAD + at * ROW - view.top, look, view, x, at === view.chosen);
  }
  on.fillStyle = look.card;
  on.fillRect(0, 0, view.width, HEAD - 2);
  heads(on, plan, look, view);
}

/** Where a time stands in the window, in pixels. */
export function placed(plan: Plan, view: Window): (atMs: number) => number {
  const wide = view.width - view.labels - 12;
  return (atMs) => view.labels + plan.scale.x(atMs) * wide;
}

function row(on: CanvasRenderingContext2D, one: Row, top: number, look: Look, view: Window, x: (atMs: number) => number, chosen: boolean): void {
  if (chosen) {
    on.fillStyle = look.sunken;
    on.fillRect(0, top, view.width, ROW);
  }
  on.fillStyle = look.line;
  on.fillRect(0, top + ROW - 1, view.width, 1);
  on.fillStyle = one.kind === "model" ? look.quiet : look.ink;
  on.fillText(fitted(on, one.label, view.labels - 20), 10, top + ROW / 2);
  for (const bar of one.bars) barAt(on, bar, x(bar.fromMs), Math.max(x(bar.toMs), x(bar.fromMs) + 3), top + 7, look, one.reused);
  const end = one.bars.at(-1);
  if (end && one.uncertain) sign(on, "?", x(end.toMs), top + ROW / 2, look.hold, look);
  else if (end && one.claimed) sign(on, "1×", x(end.toMs), top + ROW / 2, look.quiet, look);
}

const THIN = new Set<BarKind>(["queue", "asked", "pause"]);

function barAt(on: CanvasRenderingContext2D, bar: Bar, from: number, to: number, top: number, look: Look, reused: boolean): void {
  const thin = THIN.has(bar.kind);
  const high = thin ? 6 : ROW - 15;
  const y = thin ? top + 5 : top;
  on.fillStyle = look[bar.kind];
  on.globalAlpha = thin ? 0.75 : 1;
  on.beginPath();
  on.roundRect(from, y, to - from, high, 3);
  on.fill();
  on.globalAlpha = 1;
  if (reused || bar.kind === "lost") hatch(on, from, y, to - from, high, look.card);
}

function hatch(on: CanvasRenderingContext2D, left: number, top: number, wide: number, high: number, colour: string): void {
  on.save();
  on.beginPath();
  on.rect(left, top, wide, high);
  on.clip();
  on.strokeStyle = colour;
  on.lineWidth = 1.6;
  on.beginPath();
  for (let at = left - high; at < left + wide; at += 6) {
    on.moveTo(at, top + high);
    on.lineTo(at + high, top);
  }
  on.stroke();
  on.restore();
}

function sign(on: CanvasRenderingContext2D, text: string, x: number, y: number, colour: string, look: Look): void {
  on.fillStyle = colour;
  on.font = `600 12px ${look.font}`;
  on.fillText(text, x + 5, y);
  on.font = `12px ${look.font}`;
}

/** Squeezed stretches: a band through all rows, darker where nothing was alive. */
function marks(on: CanvasRenderingContext2D, plan: Plan, look: Look, view: Window): void {
  const wide = view.width - view.labels - 12;
  for (const mark of plan.marks) {
    const left = view.labels + mark.at * wide;
    on.globalAlpha = mark.dead ? 0.22 : 0.55;
    on.fillStyle = mark.dead ? look.dead : look.sunken;
    on.fillRect(left, HEAD, mark.width * wide, view.height);
    on.globalAlpha = 1;
    if (mark.dead) hatch(on, left, HEAD, mark.width * wide, view.height, look.card);
    on.strokeStyle = look.quiet;
    on.setLineDash([2, 3]);
    on.lineWidth = 1;
    on.beginPath();
    for (const edge of [left, left + mark.width * wide]) {
      on.moveTo(edge, HEAD);
      on.lineTo(edge, view.height);
    }
    on.stroke();
    on.setLineDash([]);
  }
}

function heads(on: CanvasRenderingContext2D, plan: Plan, look: Look, view: Window): void {
  const wide = view.width - view.labels - 12;
  let free = view.labels;
  on.textAlign = "center";
  for (const mark of plan.marks) {
    const middle = view.labels + (mark.at + mark.width / 2) * wide;
    const half = on.measureText(mark.text).width / 2;
    const at = Math.min(Math.max(middle, free + half), view.width - half - 2);
    if (at - half < free - 1) continue;
    on.fillStyle = mark.dead ? look.dead : look.quiet;
    on.fillText(mark.text, at, HEAD / 2);
    free = at + half + 8;
  }
  on.textAlign = "left";
}

function fitted(on: CanvasRenderingContext2D, text: string, wide: number): string {
  if (on.measureText(text).width <= wide) return text;
  let end = text.length;
  while (end > 1 && on.measureText(`${text.slice(0, end)}…`).width > wide) end = Math.floor(end * 0.9);
  return `${text.slice(0, end)}…`;
}
