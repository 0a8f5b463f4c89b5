/** One execution's log as far as this tab has it: whole from its beginning, in order, without gap or repeat. */

import { api, type Schemas, taken } from "../api/client";
import { said } from "../api/errors";
import { live } from "../api/live";
import type { Event } from "./event";

const PAGE = 1_000;
/** How many pages of a long log are asked for at once. */
const AHEAD = 3;
const SETTLE_MS = 30;

export type Held = {
  readonly events: readonly Event[];
  /** Whether the past has been read: what comes now happens now. */
  readonly whole: boolean;
  readonly error: string;
};

export class Log {
  private held: Held = { events: [], whole: false, error: "" };
  private readonly listeners = new Set<() => void>();
  private reading = false;
  private again = false;
  /** How many events those who look were told of last. */
  private told = 0;

  constructor(readonly execution: string) {}

  readonly snapshot = (): Held => this.held;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  /** Read the past and follow what comes, until the returned function is called. */
  open(): () => void {
    let unfollow = (): void => undefined;
    let closed = false;
    const unlisten = live.listen((message) => {
      if (message.kind === "ready") void this.read();
      if (message.kind === "log" && message.execution === this.execution) this.soon(message.items);
    });
    void this.read().then(() => {
      if (!closed) unfollow = live.follow(this.execution, this.held.events.length);
    });
    return () => {
      closed = true;
      unlisten();
      unfollow();
    };
  }

  /** Keep what comes until the page is drawn next: many events make one change. */
  private readonly coming: Event[] = [];
  private drawing: ReturnType<typeof setTimeout> | undefined;

  private soon(items: readonly Event[]): void {
    this.coming.push(...items);
    this.drawing ??= setTimeout(() => {
      this.drawing = undefined;
      this.take(this.coming.splice(0));
    }, SETTLE_MS);
  }

  /** Add what follows what is there; what is known is skipped, and what is missing between is read. */
  take(items: readonly Event[]): void {
    const fresh = items.filter((one) => one.seq > this.held.events.length);
    if (fresh.length === 0) return;
    if (fresh[0]?.seq !== this.held.events.length + 1) {
      void this.read();
      return;
    }
    this.set({ ...this.held, events: [...this.held.events, ...fresh] });
  }

  private async read(): Promise<void> {
    if (this.reading) {
      this.again = true;
      return;
    }
    this.reading = true;
    try {
      do {
        this.again = false;
        await this.rest();
      } while (this.again);
      this.set({ ...this.held, whole: true, error: "" });
    } catch (error) {
      this.set({ ...this.held, error: said(error) });
    } finally {
      this.reading = false;
    }
  }

  /** Read what is behind all that is here. Behind a full page it reads ahead; what is large comes in shorter ones. */
  private async rest(): Promise<void> {
    let known = this.held.events.length;
    let coming: Promise<readonly Event[]>[] = [];
    for (;;) {
      const items = await (coming.shift() ?? this.page(known));
      if (items.length === 0) return;
      known += items.length;
      if (items.length < PAGE) coming = [];
      else while (coming.length < AHEAD) coming.push(this.ahead(known + coming.length * PAGE));
      this.take(items);
    }
  }

  private ahead(after: number): Promise<readonly Event[]> {
    const page = this.page(after);
    page.catch(() => undefined); // who awaits it is told; it may be that nobody does
    return page;
  }

  private async page(after: number): Promise<readonly Event[]> {
    const given = { params: { path: { execution: this.execution }, query: { after, limit: PAGE } } };
    return ((await taken(api.GET("/v1/executions/{execution}/events", given))) as Schemas["EventList"]).items;
  }

  /** While the past is read it is told when it has doubled: told at each page, a long log would be drawn at each. */
  private set(held: Held): void {
    this.held = held;
    if (!held.whole && !held.error && held.events.length < this.told * 2) return;
    this.told = held.events.length;
    for (const listener of this.listeners) listener();
  }
}
