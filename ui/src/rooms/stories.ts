/** What a room's messages and its ledger tell, put together. Pure. */

import type { Link, Member, Message, Wake } from "./data";

export type Thread = { readonly root: Message; readonly replies: readonly Message[] };

/** Messages by what they answer: a thread stands where its first message does. What is about a task begins one. */
export function threads(messages: readonly Message[]): Thread[] {
  const known = new Set(messages.map((one) => one.id));
  const roots = messages.filter((one) => !one.thread || !known.has(one.thread));
  const replies = new Map<string, Message[]>();
  for (const one of messages) {
    if (one.thread && known.has(one.thread)) replies.set(one.thread, [...(replies.get(one.thread) ?? []), one]);
  }
  return roots.map((root) => ({ root, replies: replies.get(root.id) ?? [] }));
}

export type Act = {
  readonly seq: number;
  /** `posted`, `task opened`: the ledger's word without what all have. */
  readonly what: string;
  readonly company: string;
  readonly by: string;
  readonly kind: string;
  readonly about: string;
  readonly decision: string;
  readonly wokenBy: string;
  readonly askedBy: string;
  readonly execution: string;
  readonly atMs: number;
  readonly hash: string;
  /** All else that it says. */
  readonly more: Readonly<Record<string, unknown>>;
};

const COMMON = ["company", "by", "kind", "decision", "execution", "woken_by", "asked_by", "on_word_of"];

/** A line of the ledger, whatever stands in it. */
export function actOf(link: Link): Act {
  let said: Record<string, unknown> = {};
  try {
    const found: unknown = JSON.parse(link.data);
    if (typeof found === "object" && found !== null) said = found as Record<string, unknown>;
  } catch {
    // A line that was damaged is shown as far as it can be read.
  }
  const text = (name: string): string => (typeof said[name] === "string" ? (said[name] as string) : "");
  const word = text("on_word_of");
  return {
    seq: link.seq,
    what: link.kind.replace(/^room_/, "").replace(/^act_/, "").replaceAll("_", " "),
    company: text("company"),
    by: text("by"),
    kind: text("kind"),
    about: link.address,
    decision: text("decision") + (word ? ` by ${word}` : ""),
    wokenBy: text("woken_by"),
    askedBy: text("asked_by"),
    execution: text("execution"),
    atMs: link.at_ms,
    hash: link.hash,
    more: Object.fromEntries(Object.entries(said).filter(([name]) => !COMMON.includes(name))),
  };
}

/** What a wake did: all that its agent wrote because of what woke it. */
export function doneBy(wake: Wake, acts: readonly Act[]): Act[] {
  return acts.filter((one) => one.company === wake.company && one.by === wake.agent && one.wokenBy === wake.cause);
}

export type Company = { readonly name: string; readonly state: string; readonly agents: readonly Member[] };

/** The companies of a room with their agents: one's own first, then the host's. */
export function companies(members: readonly Member[], own: string, host: string): Company[] {
  const rank = (name: string): number => (name === own ? 0 : name === host ? 1 : 2);
  return members
    .filter((one) => one.name === "" && one.state !== "gone")
    .map((one) => ({ name: one.company, state: one.state, agents: members.filter((each) => each.name !== "" && each.company === one.company && each.state === "joined") }))
    .sort((one, other) => rank(one.name) - rank(other.name) || (one.name < other.name ? -1 : 1));
}

/** Whom one can address: companies and their agents. */
export function addresses(members: readonly Member[]): string[] {
  return members.filter((one) => one.state === "joined").map((one) => (one.name ? `${one.company}/${one.name}` : one.company)).sort();
}

/** Whether an agent of the room wrote something, or a person. */
export function kindOf(members: readonly Member[], { company, author }: { company: string; author: string }): "agent" | "person" {
  return members.some((one) => one.company === company && one.name !== "" && one.name === author) ? "agent" : "person";
}
