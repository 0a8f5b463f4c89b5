import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, type Schemas, taken } from "../api/client";

export type Schedule = Schemas["ScheduleView"];
export type Verb = "pause" | "resume" | "trigger" | "delete";

/** Ticks come without anybody being told. */
const AGAIN_MS = 10_000;

export function useSchedules() {
  return useQuery({ queryKey: ["schedules"], queryFn: ({ signal }) => taken(api.GET("/v1/schedules", { signal })), refetchInterval: AGAIN_MS });
}

export function useTicks(one: Schedule, open: boolean) {
  return useQuery({
    queryKey: ["ticks", one.name, one.cron, one.zone, one.next_ms],
    queryFn: ({ signal }) => taken(api.GET("/v1/schedules/{schedule}/ticks", { params: { path: { schedule: one.name } }, signal })),
    enabled: open,
  });
}

export function useActing(schedule: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (verb: Verb): Promise<unknown> => {
      const params = { path: { schedule } };
      switch (verb) {
        case "pause":
          return taken(api.POST("/v1/schedules/{schedule}/pause", { params }));
        case "resume":
          return taken(api.POST("/v1/schedules/{schedule}/resume", { params }));
        case "trigger":
          return taken(api.POST("/v1/schedules/{schedule}/trigger", { params, body: { nonce: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` } }));
        case "delete":
          return taken(api.DELETE("/v1/schedules/{schedule}", { params }));
      }
    },
    onSettled: () => void client.invalidateQueries({ queryKey: ["schedules"] }),
  });
}
