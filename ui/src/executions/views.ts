/** Filters that somebody gave a name, as this browser keeps them. */

import { read, write } from "./filter";

export type View = {
  readonly name: string;
  /** The part of an address that is its filter. */
  readonly search: string;
};

export const MOST_VIEWS = 30;
export const MOST_NAME = 40;

/** Views out of a storage in which anything may stand. */
export function parsed(text: string): View[] {
  let found: unknown;
  try {
    found = JSON.parse(text || "[]");
  } catch {
    return [];
  }
  if (!Array.isArray(found)) return [];
  return found.flatMap((one: unknown) => {
    const { name, search } = (typeof one === "object" && one !== null ? one : {}) as Record<string, unknown>;
    if (typeof name !== "string" || typeof search !== "string" || !name.trim()) return [];
    return [{ name: name.slice(0, MOST_NAME), search: write(read(search)) }]; // nothing in it but a filter
  });
}

/** The views with one more, in the place of what had its name. */
export function withView(views: readonly View[], name: string, search: string): View[] {
  const given = name.trim().slice(0, MOST_NAME);
  if (!given) return [...views];
  const one = { name: given, search };
  const known = views.some((each) => each.name === given);
  return (known ? views.map((each) => (each.name === given ? one : each)) : [...views, one]).slice(-MOST_VIEWS);
}

export function without(views: readonly View[], name: string): View[] {
  return views.filter((one) => one.name !== name);
}
