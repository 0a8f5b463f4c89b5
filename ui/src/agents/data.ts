import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, type Schemas, taken } from "../api/client";

export type Agent = Schemas["AgentView"];
export type Version = Schemas["VersionView"];

export function useAgents() {
  return useInfiniteQuery({
    queryKey: ["agents"],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => taken(api.GET("/v1/agents", { params: { query: pageParam ? { cursor: pageParam } : {} }, signal })),
    getNextPageParam: (page) => page.cursor ?? undefined,
  });
}

export function useVersions(agent: string) {
  return useInfiniteQuery({
    queryKey: ["versions", agent],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => taken(api.GET("/v1/agents/versions", { params: { query: { agent, ...(pageParam ? { cursor: pageParam } : {}) } }, signal })),
    getNextPageParam: (page) => page.cursor ?? undefined,
  });
}

export function useAgentCounts(agent: string) {
  return useQuery({ queryKey: ["counts", agent], queryFn: ({ signal }) => taken(api.GET("/v1/executions/counts", { params: { query: { agent } }, signal })) });
}
