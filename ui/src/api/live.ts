/**
 * What changes on the server, told to this tab. All tabs of a browser share one connection: the one that holds a lock has
 * it and passes on what comes; when it is closed, the next one takes over. Where there are no locks (plain HTTP to
 * another machine), each tab has its own.
 */

import { Replies } from "../log/replies";
import { type Message, type State, Stream } from "./stream";

type Note =
  | { readonly kind: "said"; readonly message: Message }
  | { readonly kind: "wants"; readonly tab: string; readonly wants: readonly [string, number][] }
  | { readonly kind: "who" }
  | { readonly kind: "retell"; readonly execution: string };

const CHANNEL = "perdure.live";

export class Live {
  state: State = "connecting";
  private readonly tab = `${Date.now()}-${Math.random()}`;
  private readonly listeners = new Set<(message: Message) => void>();
  private readonly own = new Map<string, number>();
  private readonly others = new Map<string, readonly [string, number][]>();
  private readonly channel: BroadcastChannel | null;
  /** What models say, as far as it was heard: for a page that is opened in the middle. Of the tab that has the stream. */
  private readonly replies = new Map<string, Replies>();
  private stream: Stream | null = null;
  private started = false;

  constructor() {
    this.channel = "locks" in navigator && "BroadcastChannel" in globalThis ? new BroadcastChannel(CHANNEL) : null;
    if (this.channel) this.channel.onmessage = (event: MessageEvent<Note>) => this.hear(event.data);
    addEventListener("online", () => this.stream?.hurry());
    addEventListener("pagehide", () => this.channel?.postMessage({ kind: "wants", tab: this.tab, wants: [] } satisfies Note));
  }

  /** Connect, or wait for the turn to. Never returns while this tab is open. */
  start(): void {
    if (this.started) return;
    this.started = true;
    if (!this.channel) {
      void this.lead();
      return;
    }
    this.channel.postMessage({ kind: "who" } satisfies Note);
    void navigator.locks.request(CHANNEL, () => this.lead());
  }

  /** Whether this tab has the stream, for all tabs of the browser. */
  get leads(): boolean {
    return this.stream !== null;
  }

  listen(listener: (message: Message) => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  /** Have a log followed from behind an event, until the returned function is called. */
  follow(execution: string, after: number): () => void {
    this.own.set(execution, after);
    this.want();
    return () => {
      this.own.delete(execution);
      this.want();
    };
  }

  /** Have told again what a model has said so far, if it is at a reply now and that is heard already. */
  retell(execution: string): void {
    if (this.stream) this.tellAgain(execution);
    else this.channel?.postMessage({ kind: "retell", execution } satisfies Note);
  }

  private tellAgain(execution: string): void {
    for (const { address, attempt, text } of this.replies.get(execution)?.all() ?? []) {
      this.say({ kind: "delta", execution, news: { address, attempt, offset: 0, text } });
    }
  }

  private keep(message: Message): void {
    if (message.kind === "delta" && !this.replies.has(message.execution)) this.replies.set(message.execution, new Replies(message.execution));
    for (const one of this.replies.values()) one.take(message);
    if (message.kind === "end") this.replies.delete(message.execution);
  }

  private async lead(): Promise<void> {
    this.stream = new Stream((message) => this.say(message));
    this.channel?.postMessage({ kind: "who" } satisfies Note);
    this.stream.follow(this.all());
    await this.stream.run();
  }

  private all(): Map<string, number> {
    const wanted = new Map<string, number>();
    for (const [one, after] of [...this.own, ...[...this.others.values()].flat()]) {
      wanted.set(one, Math.min(after, wanted.get(one) ?? after));
    }
    return wanted;
  }

  private want(): void {
    this.channel?.postMessage({ kind: "wants", tab: this.tab, wants: [...this.own] } satisfies Note);
    this.stream?.follow(this.all());
  }

  private say(message: Message): void {
    this.keep(message);
    this.channel?.postMessage({ kind: "said", message } satisfies Note);
    this.pass(message);
  }

  private pass(message: Message): void {
    if (message.kind === "state") this.state = message.state;
    for (const listener of this.listeners) listener(message);
  }

  private hear(note: Note): void {
    switch (note.kind) {
      case "said":
        this.pass(note.message);
        break;
      case "wants":
        if (note.wants.length > 0) this.others.set(note.tab, note.wants);
        else this.others.delete(note.tab);
        this.stream?.follow(this.all());
        break;
      case "retell":
        if (this.stream) this.tellAgain(note.execution);
        break;
      case "who":
        this.channel?.postMessage({ kind: "wants", tab: this.tab, wants: [...this.own] } satisfies Note);
        if (this.stream) this.channel?.postMessage({ kind: "said", message: { kind: "state", state: this.state } } satisfies Note);
        break;
    }
  }
}

export const live = new Live();
