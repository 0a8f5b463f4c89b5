/** The event stream's text, cut into frames. Sans-IO: pieces in, frames out, wherever they were cut. */

export type Frame = { readonly kind: string; readonly data: string };

export class Frames {
  private rest = "";
  private kind = "";
  private data: string[] = [];

  /** Return the frames that a piece completes. Comments, by which a silent stream shows that it lives, are none. */
  take(piece: string): Frame[] {
    const found: Frame[] = [];
    const lines = (this.rest + piece).split("\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      const frame = this.line(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (frame) found.push(frame);
    }
    return found;
  }

  private line(line: string): Frame | null {
    if (line === "") {
      const frame = this.data.length > 0 ? { kind: this.kind || "message", data: this.data.join("\n") } : null;
      this.kind = "";
      this.data = [];
      return frame;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.kind = value;
    if (name === "data") this.data.push(value);
    return null;
  }
}
