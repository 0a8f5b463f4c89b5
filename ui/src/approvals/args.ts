/** Arguments as somebody edits them. */

/** Say what is wrong with a text that is to be a call's arguments; empty if nothing is. */
export function problem(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? "" : "Arguments are a JSON object: { … }.";
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : "it cannot be read"}.`;
  }
}

/** The names whose values differ between two sets of arguments, in the order of the newer one. */
export function changed(before: Record<string, unknown>, after: Record<string, unknown>): string[] {
  const names = new Set([...Object.keys(after), ...Object.keys(before)]);
  return [...names].filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
}
