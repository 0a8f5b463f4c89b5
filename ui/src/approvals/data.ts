import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { api, type Approval, type Schemas, taken } from "../api/client";
import { ApiError } from "../api/errors";
import { useKept } from "../design/settings";
import { shown } from "./unseen";

const MOST = 1_000;

export type Verb = Schemas["DecisionBody"]["decision"];

export function useApprovals() {
  return useQuery({ queryKey: ["approvals", "open"], queryFn: ({ signal }) => taken(api.GET("/v1/approvals", { signal })) });
}

/** Keep that these are shown here, once somebody looks at the page. */
export function useSeeing(open: readonly Approval[]): void {
  const [seen, keep] = useKept("seen-approvals");
  useEffect(() => {
    const look = (): void => {
      const now = shown(open, seen);
      if (document.visibilityState === "visible" && now !== seen) keep(now);
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, [open, seen, keep]);
}

/** Those that were decided, newest first: what was last agreed to for a tool is what the next call is held against. */
export function useDecided() {
  const found = useQuery({
    queryKey: ["approvals", "decided"],
    queryFn: ({ signal }) => taken(api.GET("/v1/approvals", { params: { query: { state: "resolved" } }, signal })),
  });
  const items = found.data?.items ?? [];
  // The oldest come first: where there are more than one answer holds, the newest are not among them, and nothing is said.
  const whole = items.length < MOST;
  return useMemo(() => [...(whole ? items : [])].sort((one, other) => (other.decided_ms ?? 0) - (one.decided_ms ?? 0)), [items, whole]);
}

export function lastApproved(decided: readonly Approval[], one: Approval): Approval | null {
  return decided.find((other) => other.tool === one.tool && other.agent === one.agent && (other.decision === "approve" || other.decision === "edit")) ?? null;
}

export type Decided = { verb: Verb; reason?: string; args?: Record<string, unknown>; answer?: string };

/** Decide about exactly what was shown: the digest goes with it, and another call is refused. */
export function useDecide(one: Approval, by: string, refused: (why: string) => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ verb, reason = "", args, answer }: Decided) =>
      taken(
        api.POST("/v1/approvals/{approval}/decision", {
          params: { path: { approval: one.id } },
          body: {
            decision: verb,
            by,
            reason,
            digest: one.digest,
            ...(args ? { args: args as NonNullable<Schemas["DecisionBody"]["args"]> } : {}),
            ...(answer === undefined ? {} : { answer }),
          },
        }),
      ),
    onSettled: (_found, error) => {
      const faster = error instanceof ApiError && error.status === 409;
      if (faster) refused(`${one.tool} of ${one.agent}: ${error.message}`); // its card is about to go
      if (!error || faster) void client.invalidateQueries({ queryKey: ["approvals"] });
      void client.invalidateQueries({ queryKey: ["execution", one.execution] });
    },
  });
}
