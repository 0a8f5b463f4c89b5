/** Requests to the server that these pages came from. Types are those of its OpenAPI description. */

import createClient from "openapi-fetch";
import { ApiError } from "./errors";
import type { components, paths } from "./schema";

export const api = createClient<paths>({ baseUrl: location.origin, credentials: "same-origin" });

export type Schemas = components["schemas"];
export type Summary = Schemas["ExecutionSummary"];
export type Execution = Schemas["ExecutionView"];
export type Approval = Schemas["ApprovalView"];
export type Task = Schemas["TaskView"];
export type Effect = Schemas["EffectView"];
export type Proof = Schemas["Proof"];
export type ExecutionState = NonNullable<NonNullable<paths["/v1/executions"]["get"]["parameters"]["query"]>["state"]>;

type Answer<T> = Promise<{ data?: T; error?: unknown; response: Response }>;

const signedOut = new Set<() => void>();

/** Be told when the server does not know this browser any more. */
export function onSignedOut(listener: () => void): () => void {
  signedOut.add(listener);
  return () => void signedOut.delete(listener);
}

/** Wait for an answer and return what it holds. Throws `ApiError`. */
export async function taken<T>(answer: Answer<T>): Promise<T> {
  let found: Awaited<Answer<T>>;
  try {
    found = await answer;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError("unreachable", "The server does not answer. This page goes on by itself when it is back.", 0);
  }
  if (found.response.ok) return found.data as T;
  throw refused(found.response.status, found.error);
}

function refused(status: number, body: unknown): ApiError {
  const error = (body as { error?: { code?: string; message?: string; details?: Record<string, unknown> } } | undefined)?.error;
  if (status === 401) for (const listener of signedOut) listener();
  return new ApiError(error?.code ?? `http_${status}`, error?.message ?? `The server answered ${status}.`, status, error?.details);
}
