import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, type Schemas, taken } from "../api/client";

const SOON_MS = 400;

export type Demo = Schemas["DemoView"];
export type DemoWorker = Schemas["DemoWorker"];

/** The demo as it stands; while it runs, read again and again: its workers are told of nowhere else. */
export function useDemo() {
  return useQuery({
    queryKey: ["demo"],
    queryFn: ({ signal }) => taken(api.GET("/v1/demo", { signal })),
    refetchInterval: (query) => (query.state.data?.runs ? SOON_MS : false),
  });
}

/** `begun` is called also where what asked for it is gone by then, as the page of an empty list is. */
export function useBegin(begun?: () => void) {
  return useDoing(() => taken(api.POST("/v1/demo")), begun);
}

export function useKill() {
  return useDoing(() => taken(api.POST("/v1/demo/kill")));
}

function useDoing(mutationFn: () => Promise<Demo>, done?: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn,
    onSuccess: (found) => {
      client.setQueryData(["demo"], found);
      done?.();
    },
    onError: () => client.invalidateQueries({ queryKey: ["demo"] }), // another tab was faster
  });
}
