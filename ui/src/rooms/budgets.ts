/** Caps on what a company's agents in rooms may spend on their models on a day, as they are typed and as they stand. Pure. */

import type { Schemas } from "../api/client";

export type Budget = Schemas["BudgetView"];
/** Empty: all rooms, all agents. */
export type Scope = Pick<Budget, "room" | "agent">;
export type Caps = Pick<Budget, "usd" | "tokens" | "unpriced_usd">;
export type Fields = { readonly usd: string; readonly tokens: string; readonly unpriced_usd: string };

/** As the server has it. */
const MOST_USD = 1_000_000_000;
const MOST_TOKENS = 10 ** 15;

/** Those that hold in a room, the widest first. */
export function holdingIn(budgets: readonly Budget[], room: string): Budget[] {
  const rank = (one: Budget): number => (one.room ? 2 : 0) + (one.agent ? 1 : 0);
  return budgets.filter((one) => one.room === "" || one.room === room).sort((one, other) => rank(one) - rank(other) || (one.agent < other.agent ? -1 : 1));
}

export function named({ room, agent }: Scope): string {
  return `${agent || "all agents"} ${room ? "in this room" : "in all rooms"}`;
}

export function fieldsOf(caps: Caps | null): Fields {
  const text = (value: number | null | undefined): string => (value === null || value === undefined ? "" : String(value));
  return { usd: text(caps?.usd), tokens: text(caps?.tokens), unpriced_usd: text(caps?.unpriced_usd) };
}

/** What is meant. A field that is empty is no cap of that kind. */
export function capsOf(fields: Fields): Caps {
  const number = (text: string): number | null => (text.trim() === "" ? null : Number(text));
  return { usd: number(fields.usd), tokens: number(fields.tokens), unpriced_usd: number(fields.unpriced_usd) };
}

/** Say what cannot be, or nothing. */
export function problem(fields: Fields): string {
  const { usd, tokens, unpriced_usd: unpriced } = capsOf(fields);
  if (usd === null && tokens === null) return unpriced === null ? "" : "What an unknown price counts for goes with a cap in dollars.";
  for (const [what, dollars] of [["Dollars", usd], ["An unknown price", unpriced]] as const) {
    if (dollars !== null && !(dollars >= 0 && dollars <= MOST_USD)) return `${what} should be an amount up to ${MOST_USD.toLocaleString("en-GB")}.`;
  }
  if (tokens !== null && !(Number.isInteger(tokens) && tokens >= 0 && tokens <= MOST_TOKENS)) return "Tokens are a whole number.";
  return unpriced !== null && usd === null ? "What an unknown price counts for goes with a cap in dollars." : "";
}

/** What part of a cap is used, requests under way included: 1 is all of it. */
export function used(spent: number, reserved: number, cap: number): number {
  return cap > 0 ? Math.min(1, (spent + reserved) / cap) : 1;
}
