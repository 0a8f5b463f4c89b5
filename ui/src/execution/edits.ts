/** What somebody changes of an execution that they fork: where it begins, what stands there at first, what is sent. Pure. */

import type { Execution, Schemas } from "../api/client";
import { type Event, outcomeIn, shown } from "../log/event";
import type { ModelStep, ToolStep } from "../log/story";
import { size } from "../text/hostile";

/** Where an execution may be forked, and what can be another there. */
export type Place = { readonly title: string; readonly at: number; readonly result?: { readonly address: string; readonly label: string; readonly value: unknown } };

/** What the editor's fields hold. `input` is an agent's prompt or a function's input, `model` a model or a build. */
export type Edit = { readonly at: string; readonly input: string; readonly model: string; readonly result: string };

type Result = { readonly address: string; readonly label: string; readonly json: boolean; /** Why the field is empty at first. */ readonly left: string };

/** What the fields hold before anybody changed anything. */
export type Given = Edit & { readonly durable: boolean; readonly of: Result | null };

/** Longer ones are not put into a field. */
const MOST_TEXT = 200_000;

export function toolPlace(step: ToolStep): Place | null {
  if (step.answerSeq === null) return null;
  return { title: `Fork after ${step.tool}`, at: step.answerSeq, result: { address: step.address, label: "Its result", value: step.value ?? step.error } };
}

/** After any event; where that is the result of a call, or of a step that durable code ran itself, with another one. */
export function eventPlace(event: Event): Place {
  const place = { title: `Fork after event ${event.seq}`, at: event.seq };
  const result = event.kind === "task_completed" || (event.kind === "step_recorded" && outcomeIn(event) === null);
  return result ? { ...place, result: { address: event.address, label: "Its result", value: event.data["value"] } } : place;
}

/** A reply without calls is edited as the text that it is, one with calls as JSON. */
export function modelPlace(step: ModelStep): Place {
  const calls = step.calls.map((call) => ({ id: call.id, name: call.name, arguments: parsed(call.args) ?? call.args }));
  return { title: `Fork after the reply of ${step.address}`, at: step.seq, result: { address: step.address, label: "What the model says", value: calls.length > 0 ? { text: step.text, tool_calls: calls } : step.text } };
}

export function startPlace(): Place {
  return { title: "Fork from the start", at: 1 };
}

export function given(view: Execution, place: Place): Given {
  const durable = !view.model;
  const value = place.result?.value;
  const json = typeof value !== "string";
  const text = json ? JSON.stringify(value ?? null, null, 2) : value;
  const long = text.length > MOST_TEXT;
  const of = place.result ? { address: place.result.address, label: json ? `${place.result.label}, as JSON` : place.result.label, json, left: long ? `The recorded one has ${size(text)}. What you write here takes its place.` : "" } : null;
  const input = durable ? JSON.stringify(view.input ?? null, null, 2) : shown(view.input);
  return { durable, at: String(place.at), input: input.length > MOST_TEXT ? "" : input, model: view.model, result: of && !long ? text : "", of };
}

/** Say what is wrong with what the fields hold; empty if nothing is. */
export function problemOf(edit: Edit, before: Given): string {
  if (!/^[1-9]\d*$/.test(edit.at)) return "An event is a whole number from 1 on.";
  if (before.durable && edit.input !== before.input && parsed(edit.input) === undefined) return "The input is not JSON.";
  if (before.of?.json && edit.result !== before.result && parsed(edit.result) === undefined) return `${before.of.label.replace(", as JSON", "")}: this is not JSON.`;
  return "";
}

/** What is to be different, as it is sent: only what was changed. */
export function editsOf(edit: Edit, before: Given): Omit<Schemas["ForkBody"], "by" | "idempotency_key"> {
  const [input, model, result] = [edit.input !== before.input, edit.model !== before.model && edit.model.trim() !== "", edit.result !== before.result];
  return {
    at: Number(edit.at),
    prompt: input && !before.durable ? edit.input : null,
    input: input && before.durable ? parsed(edit.input) : null,
    model: model && !before.durable ? edit.model.trim() : null,
    build: model && before.durable ? edit.model.trim() : null,
    results: result && before.of ? { [before.of.address]: before.of.json ? parsed(edit.result) : edit.result } : {},
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
