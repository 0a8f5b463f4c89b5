/** What a company said may be done in a room, in words. Pure. The document is read with care: a newer server may say more. */

import { duration } from "../text/time";

export type Then = "allow" | "hold" | "refuse";

export type Said = {
  readonly name: string;
  readonly then: Then | null;
  /** Of which acts it is, as a sentence. */
  readonly what: string;
  /** Whose yes is waited for; empty unless it holds. */
  readonly whose: string;
  /** What these pages do not know how to say: they show it as it is. */
  readonly unknown: readonly string[];
};

export type Document = { readonly rules: readonly Said[]; readonly roles: readonly (readonly [string, readonly string[]])[] };

const ACTS: Record<string, string> = {
  post: "says something",
  remember: "keeps a line in memory",
  update_task: "changes a task",
  create_task: "opens a task",
  share_file: "shares a file",
  call_tool: "calls a tool",
  spend: "spends money",
};
const KNOWN = new Set(["name", "then", "acts", "who", "to", "above", "steered", "private", "by"]);
const THENS: readonly Then[] = ["allow", "hold", "refuse"];
/** As the server has it. */
const EXPIRES_SECONDS = 7 * 86_400;

type Fields = Readonly<Record<string, unknown>>;

function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
}

/** `own`: whose document it is. */
export function inWords(found: unknown, own: string): Document {
  const { rules, roles } = fields(found);
  return {
    rules: (Array.isArray(rules) ? rules : []).map((one) => ruleOf(fields(one), own)),
    roles: Object.entries(fields(roles)).map(([role, people]) => [role, texts(people)] as const),
  };
}

function ruleOf(rule: Fields, own: string): Said {
  const then = THENS.find((one) => one === rule["then"]) ?? null;
  const unknown = Object.keys(rule).filter((name) => !KNOWN.has(name));
  return { name: String(rule["name"] ?? ""), then, what: sentence(rule), whose: then === "hold" ? whose(fields(rule["by"]), own) : "", unknown };
}

function sentence(rule: Fields): string {
  const acts = texts(rule["acts"]);
  const who = typeof rule["who"] === "string" && rule["who"] !== "*" ? rule["who"] : "any agent";
  const does = acts.length === 0 ? "does anything" : alternatives(acts.map((one) => ACTS[one] ?? one.replaceAll("_", " ")));
  return [`${who} ${does}`, whom(rule["to"], acts), above(rule["above"]), steered(rule["steered"]), hidden(rule["private"])].filter(Boolean).join(", ");
}

function alternatives(words: readonly string[]): string {
  return words.length < 2 ? (words[0] ?? "") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

/** What `to` means depends on the act: a verb, a tool, or somebody. */
function whom(to: unknown, acts: readonly string[]): string {
  if (typeof to !== "string" || to === "*") return "";
  const all = (...names: string[]): boolean => acts.length > 0 && acts.every((one) => names.includes(one));
  if (all("update_task")) return `by ${to}`;
  if (all("call_tool", "spend")) return `with the tool ${to}`;
  return `for ${to} or naming it`;
}

function above(amount: unknown): string {
  return typeof amount === "number" ? `of more than $${amount}` : "";
}

function steered(so: unknown): string {
  if (typeof so !== "boolean") return "";
  return so ? "after it was shown text of others, of a file or of a tool" : "having been shown no text of others, of a file or of a tool";
}

function hidden(so: unknown): string {
  if (typeof so !== "boolean") return "";
  return so ? "after it was shown lines that not all may read whom it tells" : "having been shown no lines that not all may read whom it tells";
}

function whose(by: Fields, own: string): string {
  const quorum = typeof by["quorum"] === "number" ? by["quorum"] : 1;
  const company = typeof by["company"] === "string" && by["company"] ? by["company"] : own;
  const role = typeof by["role"] === "string" && by["role"] ? ` in the role ${by["role"]}` : "";
  const people = quorum === 1 ? `somebody of ${company}` : `${quorum} people of ${company}`;
  const seconds = typeof by["expires_seconds"] === "number" ? by["expires_seconds"] : EXPIRES_SECONDS;
  return `${people}${role}, within ${duration(seconds * 1_000)}`;
}
