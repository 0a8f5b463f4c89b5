/** Text that models, tools and strangers wrote. It stays text: nothing here returns markup. */

/** Characters that move what stands beside them, hide themselves, or pass for nothing. Tab and newline are harmless. */
const TRICKS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;

export type Piece = { readonly text: string; readonly trick: boolean };

/** Cut a text into plain pieces and single characters that must be shown by their number. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(TRICKS)) {
    if (match.index > from) found.push({ text: text.slice(from, match.index), trick: false });
    found.push({ text: named(match[0]), trick: true });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from), trick: false });
  return found;
}

/** The same on one line, for labels and canvases. */
export function plain(text: string): string {
  return text.replace(TRICKS, named).replace(/\s+/g, " ").trim();
}

function named(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** A beginning of a text that is too long to lay out at once, never cutting a character in two. */
export function beginning(text: string, most: number): string {
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most);
}

/** `5.2 MB`. */
export function size(text: string): string {
  const bytes = text.length;
  if (bytes < 1_000) return `${bytes} characters`;
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
