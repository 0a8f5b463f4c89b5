/** The facts of a log, and careful ways to read what stands in them: `data` is whatever some version of Perdure wrote. */

import type { components } from "../api/schema";

export type Event = components["schemas"]["Event"];
export type Kind = Event["kind"];
export type Json = string | number | boolean | null | Json[] | { [name: string]: Json };
export type Fields = Record<string, unknown>;

export function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

export function textOf(data: Fields, name: string): string {
  const found = data[name];
  return typeof found === "string" ? found : "";
}

export function numberOf(data: Fields, name: string): number | null {
  const found = data[name];
  return typeof found === "number" ? found : null;
}

export function listOf(data: Fields, name: string): unknown[] {
  const found = data[name];
  return Array.isArray(found) ? found : [];
}

/** A value as people read it: a text as it is, anything else as JSON. */
export function shown(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined ? "" : JSON.stringify(value, null, 2);
}

/** The model's reply that an event records, if it records one. */
export function replyIn(event: Event): Fields | null {
  if (event.kind !== "step_recorded") return null;
  const reply = fields(event.data["value"])["reply"];
  return typeof reply === "object" && reply !== null ? fields(reply) : null;
}

/** Whether an event is a model call, answered or not. */
export function outcomeIn(event: Event): Fields | null {
  const value = fields(event.data["value"]);
  return event.kind === "step_recorded" && "outcome" in value && "requests" in value ? value : null;
}
