/** The list of executions as it is read: page by page, newest first, and brought up to date by what the stream tells. */

import { type InfiniteData, useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { api, type Summary, taken } from "../api/client";
import { live } from "../api/live";
import { type Filter, merged, query } from "./filter";

const PAGE = 100;
/** Between two counts while something changes. */
const COUNT_MS = 3_000;

export type Listed = {
  readonly items: readonly Summary[];
  readonly cursor?: string | null;
  /** Of a search: a page of it may be short, or empty, and not be the last. */
  readonly looked_at?: number;
};

type Pages = InfiniteData<Listed, string | undefined>;

/** A page of those that pass a filter. */
export function listed(filter: Filter, nowMs: number, cursor: string | undefined, signal: AbortSignal, limit = PAGE): Promise<Listed> {
  const wanted = { ...query(filter, nowMs), limit, ...(cursor ? { cursor } : {}) };
  if (filter.text) return taken(api.GET("/v1/executions/search", { params: { query: { ...wanted, text: filter.text } }, signal }));
  return taken(api.GET("/v1/executions", { params: { query: wanted }, signal }));
}

export function useExecutions(filter: Filter) {
  const client = useQueryClient();
  const key = useMemo(() => ["executions", filter], [filter]);
  const nowMs = useMemo(() => Date.now(), [filter]);
  const found = useInfiniteQuery({
    queryKey: key,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => listed(filter, nowMs, pageParam, signal),
    getNextPageParam: (page) => page.cursor ?? undefined,
  });
  useEffect(
    () =>
      live.listen((message) => {
        if (message.kind === "ready") void client.invalidateQueries({ queryKey: key });
        if (message.kind !== "executions") return;
        client.setQueryData<Pages>(key, (old) => old && { ...old, pages: merged(filter, old.pages, message.items, Date.now()) });
      }),
    [client, filter, key],
  );
  const items = useMemo<readonly Summary[]>(() => found.data?.pages.flatMap((page) => page.items) ?? [], [found.data]);
  return { ...found, items };
}

/** How many are in each state; counted again when something changed, but seldom: counting many costs the server. */
export function useCounts(agent: string) {
  const client = useQueryClient();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = live.listen((message) => {
      if (message.kind !== "executions" && message.kind !== "ready") return;
      timer ??= setTimeout(() => {
        timer = undefined;
        void client.invalidateQueries({ queryKey: ["counts"] });
      }, COUNT_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [client]);
  return useQuery({
    queryKey: ["counts", agent],
    queryFn: ({ signal }) => taken(api.GET("/v1/executions/counts", { params: { query: agent ? { agent } : {} }, signal })),
  });
}
