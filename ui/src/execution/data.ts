/** One execution as its page needs it: how it stands, its log, its tasks. Each is read again when its log has grown. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { api, type Task, taken } from "../api/client";
import { live } from "../api/live";
import { type Held, Log } from "../log/log";
import { type Running, type Story, storyOf } from "../log/story";

const SETTLE_MS = 250;
const NO_TASKS: readonly Task[] = [];

export function useLog(execution: string): Held {
  const [log] = useState(() => new Log(execution));
  useEffect(() => log.open(), [log]);
  return useSyncExternalStore(log.subscribe, log.snapshot);
}

export function useExecution(id: string) {
  useReadAgain(id);
  return useQuery({
    queryKey: ["execution", id],
    queryFn: ({ signal }) => taken(api.GET("/v1/executions/{execution}", { params: { path: { execution: id } }, signal })),
  });
}

/** The tasks of an execution that goes on: which of them run just now, no log says. */
export function useTasks(id: string, goesOn: boolean): readonly Task[] {
  const found = useQuery({
    queryKey: ["execution", id, "tasks"],
    enabled: goesOn,
    queryFn: async ({ signal }): Promise<Task[]> =>
      (await taken(api.GET("/v1/executions/{execution}/tasks", { params: { path: { execution: id } }, signal }))).items,
  });
  return goesOn ? (found.data ?? NO_TASKS) : NO_TASKS;
}

/** The task of one call: as `known`, or asked for by the event that scheduled it, where a page of tasks does not have it. */
export function useTask(id: string, address: string, seq: number, known: Task | undefined): Task | undefined {
  const found = useQuery({
    queryKey: ["execution", id, "task", address],
    enabled: known === undefined,
    queryFn: async ({ signal }): Promise<Task | null> => {
      const given = { params: { path: { execution: id }, query: { after: seq - 1, limit: 1 } }, signal };
      return (await taken(api.GET("/v1/executions/{execution}/tasks", given))).items.find((one) => one.address === address) ?? null;
    },
  });
  return known ?? found.data ?? undefined;
}

export function useEffects(id: string) {
  return useQuery({
    queryKey: ["execution", id, "effects"],
    queryFn: async ({ signal }) => (await taken(api.GET("/v1/effects", { params: { query: { execution: id } }, signal }))).items,
  });
}

export function useProof(id: string) {
  return useQuery({
    queryKey: ["execution", id, "proof"],
    queryFn: ({ signal }) => taken(api.GET("/v1/executions/{execution}/proof", { params: { path: { execution: id } }, signal })),
  });
}

export function useStory(held: Held, tasks: readonly Task[]): Story {
  return useMemo(() => storyOf(held.events, runningOf(tasks)), [held.events, tasks]);
}

function runningOf(tasks: readonly Task[]): Running {
  return new Map(
    tasks.flatMap((task) =>
      (task.state === "leased" || task.state === "begun") && task.started_ms != null
        ? [[task.address, { attempt: task.attempt, worker: task.worker ?? "", startedMs: task.started_ms }] as const]
        : [],
    ),
  );
}

/** Whatever is shown of an execution is read again soon after something happened to it; many events make one reading. */
function useReadAgain(id: string): void {
  const client = useQueryClient();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = live.listen((message) => {
      const ours =
        message.kind === "ready" ||
        ((message.kind === "log" || message.kind === "end") && message.execution === id) ||
        (message.kind === "executions" && message.items.some((one) => one.id === id));
      if (!ours) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        void client.invalidateQueries({ queryKey: ["execution", id] });
      }, SETTLE_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [client, id]);
}
