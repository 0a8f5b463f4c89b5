import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, type Schemas, taken } from "../api/client";
import type { Limits } from "./lanes";

/** Nothing tells when a queue grows or a worker comes; while somebody looks, it is asked. */
const AGAIN_MS = 3_000;
const PAGE = 50;

export type Dead = Schemas["DeadTask"];

export function useWorkers() {
  return useQuery({ queryKey: ["workers"], queryFn: ({ signal }) => taken(api.GET("/v1/workers", { signal })), refetchInterval: AGAIN_MS });
}

export function useHeld() {
  return useQuery({ queryKey: ["held"], queryFn: ({ signal }) => taken(api.GET("/v1/workers/held", { signal })), refetchInterval: AGAIN_MS });
}

export function useQueues() {
  return useQuery({ queryKey: ["queues"], queryFn: ({ signal }) => taken(api.GET("/v1/queues", { signal })), refetchInterval: AGAIN_MS });
}

export function usePausing(by: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ queue, pause }: { queue: string; pause: boolean }) => {
      const given = { params: { path: { queue } }, body: { by } };
      return taken(pause ? api.POST("/v1/queues/{queue}/pause", given) : api.POST("/v1/queues/{queue}/resume", given));
    },
    onSettled: () => void client.invalidateQueries({ queryKey: ["queues"] }),
  });
}

export function useLimiting(by: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ queue, limits }: { queue: string; limits: Limits }) => taken(api.PUT("/v1/queues/{queue}", { params: { path: { queue } }, body: { ...limits, by } })),
    onSettled: () => void client.invalidateQueries({ queryKey: ["queues"] }),
  });
}

export function deadPage(queue: string, cursor: string | undefined, signal: AbortSignal, limit = PAGE): Promise<Schemas["DeadPage"]> {
  return taken(api.GET("/v1/tasks/dead", { params: { query: { limit, ...(queue ? { queue } : {}), ...(cursor ? { cursor } : {}) } }, signal }));
}

export function useDead(queue: string) {
  return useInfiniteQuery({
    queryKey: ["dead", queue],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => deadPage(queue, pageParam, signal),
    getNextPageParam: (page) => page.cursor ?? undefined,
    refetchInterval: AGAIN_MS * 3,
  });
}

export function retry({ execution, address }: Dead, by: string, reason: string): Promise<unknown> {
  return taken(api.POST("/v1/executions/{execution}/tasks/retry", { params: { path: { execution } }, body: { address, by, reason } }));
}
