/**
 * One connection to the event stream, for as long as it is wanted: it comes back after every cut, from where it was.
 * What it follows may change at any time; nothing between is missed, because it says how far each log is known.
 */

import type { Schemas } from "./client";
import { Frames, type Frame } from "./frames";

export type State = "connecting" | "live" | "away" | "signed-out";

/** A piece of a reply. With offset 0 it takes the place of all that came of this address, else it follows that. */
export type Delta = { readonly address: string; readonly attempt: number; readonly offset: number; readonly text: string };

export type Message =
  | { readonly kind: "state"; readonly state: State }
  | { readonly kind: "ready" }
  | { readonly kind: "executions"; readonly items: readonly Schemas["ExecutionSummary"][] }
  | { readonly kind: "approvals"; readonly open: number }
  | { readonly kind: "log"; readonly execution: string; readonly items: readonly Schemas["Event"][] }
  /** What a model says while it is still at its reply: in no log, and void once its address is recorded. */
  | { readonly kind: "delta"; readonly execution: string; readonly news: Delta }
  | { readonly kind: "reset"; readonly execution: string; readonly news: { readonly why: string } }
  | { readonly kind: "end" | "unknown"; readonly execution: string };

const FIRST_PAUSE_MS = 300;
const LONGEST_PAUSE_MS = 5_000;
/** The server says something every 15 s; a connection on which nothing came for so long is dead. */
const SILENT_MS = 40_000;

export class Stream {
  private follows = new Map<string, number>();
  private cut: AbortController | null = null;
  private over = false;
  private pause = FIRST_PAUSE_MS;

  constructor(private readonly tell: (message: Message) => void) {}

  /** Follow these logs from now on, each from behind an event. Reconnects only if one is new. */
  follow(wanted: ReadonlyMap<string, number>): void {
    const fresh = [...wanted.keys()].some((one) => !this.follows.has(one));
    this.follows = new Map([...wanted].map(([one, after]) => [one, Math.max(after, this.follows.get(one) ?? 0)]));
    if (fresh) this.cut?.abort();
  }

  /** Begin; ends with `close`. */
  async run(): Promise<void> {
    while (!this.over) {
      this.cut = new AbortController();
      const cut = this.cut;
      let answered = false;
      try {
        answered = await this.read(cut);
      } catch {
        // Cut, by us or by whatever is between: it is taken up again below.
      }
      if (this.over) return;
      if (cut.signal.aborted && cut.signal.reason !== "silent") continue; // to follow something else, at once
      if (!answered) this.tell({ kind: "state", state: "away" });
      await this.wait();
    }
  }

  close(): void {
    this.over = true;
    this.cut?.abort();
  }

  /** Try again now: the browser says that the network is back. */
  hurry(): void {
    this.pause = FIRST_PAUSE_MS;
    this.woken?.();
  }

  private woken: (() => void) | null = null;

  private wait(): Promise<void> {
    const pause = this.pause * (0.75 + Math.random() / 2);
    this.pause = Math.min(this.pause * 1.7, LONGEST_PAUSE_MS);
    return new Promise((done) => {
      const timer = setTimeout(done, pause);
      this.woken = () => {
        clearTimeout(timer);
        done();
      };
    });
  }

  /** Read until it ends; say whether the server let us in. */
  private async read(cut: AbortController): Promise<boolean> {
    const query = new URLSearchParams([...this.follows].map(([one, after]) => ["follow", `${one}:${after}`]));
    const reply = await fetch(`/v1/feed?${query}`, {
      headers: { accept: "text/event-stream" },
      credentials: "same-origin",
      cache: "no-store",
      signal: cut.signal,
    });
    if (reply.status === 401) {
      this.tell({ kind: "state", state: "signed-out" });
      this.pause = LONGEST_PAUSE_MS;
      return true;
    }
    if (!reply.ok || !reply.body) return false;
    const frames = new Frames();
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let silent = setTimeout(() => cut.abort("silent"), SILENT_MS);
    try {
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
        clearTimeout(silent);
        silent = setTimeout(() => cut.abort("silent"), SILENT_MS);
        for (const frame of frames.take(piece.value)) this.take(frame);
      }
    } finally {
      clearTimeout(silent);
    }
    return false;
  }

  private take(frame: Frame): void {
    if (frame.kind === "ready") {
      this.pause = FIRST_PAUSE_MS;
      this.tell({ kind: "state", state: "live" });
      this.tell({ kind: "ready" });
      return;
    }
    const message = { kind: frame.kind, ...JSON.parse(frame.data) } as Message;
    if (message.kind === "log") this.follows.set(message.execution, message.items.at(-1)?.seq ?? this.follows.get(message.execution) ?? 0);
    this.tell(message);
  }
}
