/** Hand a text out as a file. */
export function saved(text: string, name: string, type = "text/plain"): void {
  savedBytes(new Blob([text], { type: `${type};charset=utf-8` }), name);
}

/** Hand anything out as a file. It is never opened here. */
export function savedBytes(content: Blob, name: string): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}
