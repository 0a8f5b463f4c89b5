/** Files of rooms as they travel and are told. Pure. */

/** The end of a passage and the beginning of the next are the same few words, this many characters at most. */
const OVERLAP = 100;

/** Passages as one text, what they have twice once. */
export function joined(passages: readonly string[]): string {
  return passages.reduce((whole, one) => whole + one.slice(shared(whole, one)), "");
}

function shared(whole: string, next: string): number {
  for (let n = Math.min(OVERLAP, whole.length, next.length); n > 0; n--) if (whole.endsWith(next.slice(0, n))) return n;
  return 0;
}

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
}

/** `12 bytes`, `1.2 MB`. */
export function size(bytes: number): string {
  if (bytes < 1_000) return bytes === 1 ? "1 byte" : `${bytes} bytes`;
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

export function hex(bytes: Uint8Array): string {
  return [...bytes].map((one) => one.toString(16).padStart(2, "0")).join("");
}
