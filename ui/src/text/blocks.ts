/**
 * The part of markdown that models write, as a tree. Whatever is not understood stays as it was written: there is no HTML,
 * no image and no link that leads anywhere, so nothing in it can load, hide or send anything.
 */

export type Inline =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "strong" | "em"; readonly of: readonly Inline[] }
  | { readonly kind: "link"; readonly text: string; readonly address: string; readonly image: boolean };

export type Block =
  | { readonly kind: "heading"; readonly level: number; readonly of: readonly Inline[] }
  | { readonly kind: "paragraph" | "quote"; readonly of: readonly Inline[] }
  | { readonly kind: "code"; readonly language: string; readonly text: string }
  | { readonly kind: "list"; readonly ordered: boolean; readonly items: readonly (readonly Inline[])[] }
  | { readonly kind: "table"; readonly head: readonly (readonly Inline[])[]; readonly rows: readonly (readonly (readonly Inline[])[])[] }
  | { readonly kind: "rule" };

/** A longer text is shown as it is: marks in it help nobody, and take time. */
export const MOST = 30_000;

const FENCE = /^\s{0,3}(```+|~~~+)\s*([\w+-]{0,20})/;
const HEADING = /^(#{1,6})\s+(.+?)\s*#*$/;
const ITEM = /^\s*(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;
const RULE = /^\s*(?:-{3,}|\*{3,}|_{3,})\s*$/;
const QUOTE = /^\s{0,3}>\s?(.*)$/;
const DIVIDER = /^\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$/;

/** Read a text, which the caller keeps to `MOST` characters. */
export function blocks(text: string): Block[] {
  const lines = text.split(/\r?\n/);
  const found: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const [block, next] = block_at(lines, at);
    if (block) found.push(block);
    at = next;
  }
  return found;
}

function block_at(lines: readonly string[], at: number): [Block | null, number] {
  const line = lines[at] ?? "";
  if (!line.trim()) return [null, at + 1];
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence[1] ?? "```", fence[2] ?? "");
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: "heading", level: (heading[1] ?? "").length, of: inlines(heading[2] ?? "") }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (line.includes("|") && DIVIDER.test(lines[at + 1] ?? "")) return table(lines, at);
  if (ITEM.test(line)) return list(lines, at);
  if (QUOTE.test(line)) return gathered(lines, at, "quote", (one) => QUOTE.exec(one)?.[1]);
  return gathered(lines, at, "paragraph", (one) => (one.trim() && !begins(one) ? one : undefined));
}

function begins(line: string): boolean {
  return FENCE.test(line) || HEADING.test(line) || ITEM.test(line) || QUOTE.test(line) || RULE.test(line);
}

function fenced(lines: readonly string[], at: number, mark: string, language: string): [Block, number] {
  const inside: string[] = [];
  let next = at + 1;
  while (next < lines.length && !(lines[next] ?? "").trim().startsWith(mark)) inside.push(lines[next++] ?? "");
  return [{ kind: "code", language, text: inside.join("\n") }, next + 1];
}

function gathered(
  lines: readonly string[],
  at: number,
  kind: "paragraph" | "quote",
  take: (line: string) => string | undefined,
): [Block, number] {
  const inside = [take(lines[at] ?? "") ?? lines[at] ?? ""];
  let next = at + 1;
  for (let more = take(lines[next] ?? ""); next < lines.length && more !== undefined; more = take(lines[++next] ?? "")) inside.push(more);
  return [{ kind, of: inlines(inside.join("\n")) }, next];
}

function list(lines: readonly string[], at: number): [Block, number] {
  const items: string[] = [];
  const ordered = ITEM.exec(lines[at] ?? "")?.[1] !== undefined;
  let next = at;
  for (; next < lines.length; next++) {
    const line = lines[next] ?? "";
    const item = ITEM.exec(line);
    if (item) items.push(item[2] ?? "");
    else if (line.trim() && /^\s{2,}/.test(line) && items.length > 0) items.push(`${items.pop() ?? ""}\n${line.trim()}`);
    else break;
  }
  return [{ kind: "list", ordered, items: items.map(inlines) }, next];
}

function table(lines: readonly string[], at: number): [Block, number] {
  const rows: Inline[][][] = [];
  let next = at + 2;
  for (; next < lines.length && (lines[next] ?? "").includes("|"); next++) rows.push(cells(lines[next] ?? ""));
  return [{ kind: "table", head: cells(lines[at] ?? ""), rows }, next];
}

function cells(line: string): Inline[][] {
  return line
    .trim()
    .replace(/^\||\|$/g, "")
    .split("|")
    .map((cell) => inlines(cell.trim()));
}

// No pattern looks further than so many characters ahead: a hostile text must not take long.
const MARKS = /`([^`\n]{1,500})`|(!?)\[([^\]\n]{0,300})\]\(([^)\s]{0,1000})(?:\s[^)\n]{0,300})?\)|\*\*([^*\n]{1,500})\*\*|(?<![\w*])[*_]([^*_\n]{1,500})[*_](?![\w*])/g;

/** Read what stands inside a line. */
export function inlines(text: string): Inline[] {
  const found: Inline[] = [];
  let from = 0;
  for (const match of text.matchAll(MARKS)) {
    if (match.index > from) found.push({ kind: "text", text: text.slice(from, match.index) });
    found.push(inline(match));
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ kind: "text", text: text.slice(from) });
  return found;
}

function inline([whole, code, bang, label, address, strong, em]: RegExpExecArray): Inline {
  if (code !== undefined) return { kind: "code", text: code };
  if (address !== undefined) return { kind: "link", text: label ?? "", address, image: bang === "!" };
  if (strong !== undefined) return { kind: "strong", of: inlines(strong) };
  return em === undefined ? { kind: "text", text: whole } : { kind: "em", of: inlines(em) };
}
