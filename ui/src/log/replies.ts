/**
 * The replies that models are still at, put together from their pieces. Pure. A later attempt takes the place of an
 * earlier one, the record that of all; who missed the beginning of a reply waits until it is told from there.
 */

import type { Delta, Message } from "../api/stream";
import type { Event } from "./event";

export type Reply = { readonly address: string; readonly attempt: number; readonly text: string };

const ENDS: ReadonlySet<string> = new Set(["paused", "stuck", "taken_over", "completed", "failed", "cancelled"]);

/** Those of one execution. */
export class Replies {
  private made = new Map<string, Reply>();
  /** Another server asks the model: what it says is not seen from here. */
  elsewhere = false;

  constructor(readonly execution: string) {}

  /** Take what came; say whether it changed anything. */
  take(message: Message): boolean {
    switch (message.kind) {
      case "delta":
        return message.execution === this.execution && this.piece(message.news);
      case "reset":
        return message.execution === this.execution && this.clear(true);
      case "log":
        return message.execution === this.execution && this.recorded(message.items);
      case "ready": // a new connection begins each text anew
        return this.clear(false);
      default:
        return false;
    }
  }

  all(): Reply[] {
    return [...this.made.values()];
  }

  private piece({ address, attempt, offset, text }: Delta): boolean {
    const known = this.made.get(address);
    if (offset > 0 && known?.attempt !== attempt) return false;
    this.made.set(address, { address, attempt, text: offset > 0 ? (known?.text ?? "") + text : text });
    this.elsewhere = false;
    return true;
  }

  private recorded(events: readonly Event[]): boolean {
    const before = this.made.size;
    for (const event of events) {
      if (ENDS.has(event.kind)) this.made.clear();
      if (event.kind === "step_recorded") this.made.delete(event.address);
    }
    return this.made.size !== before;
  }

  private clear(elsewhere: boolean): boolean {
    const changed = this.made.size > 0 || this.elsewhere !== elsewhere;
    this.made.clear();
    this.elsewhere = elsewhere;
    return changed;
  }
}
