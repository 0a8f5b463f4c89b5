/** A room as its pages need it. Its ledger's last number says that something was added; it is asked for while one looks. */

import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { api, type Schemas, taken } from "../api/client";
import { useMyName } from "../design/settings";
import { type Slice, slice, WINDOW, whole } from "./windows";

export type Room = Schemas["RoomView"];
export type Member = Schemas["MemberView"];
export type Message = Schemas["MessageView"];
export type RoomTask = Schemas["RoomTaskView"];
export type Line = Schemas["MemoryView"];
export type File = Schemas["FileView"];
export type Wake = Schemas["WakeView"];
export type Link = Schemas["Link"];
export type Verb = Schemas["TaskChangeBody"]["verb"];

const LOOK_MS = 2_000;

export function useMyCompany(): string {
  const found = useQuery({ queryKey: ["session"], queryFn: () => taken(api.GET("/v1/session")), staleTime: Infinity });
  return found.data?.company ?? "";
}

export function useRooms() {
  return useQuery({ queryKey: ["rooms"], queryFn: ({ signal }) => taken(api.GET("/v1/rooms", { signal })), refetchInterval: LOOK_MS * 5 });
}

export function useRoom(room: string) {
  const client = useQueryClient();
  const found = useQuery({ queryKey: ["room", room], queryFn: ({ signal }) => taken(api.GET("/v1/rooms/{room}", { params: { path: { room } }, signal })), refetchInterval: LOOK_MS });
  const last = found.data?.last_seq;
  const before = useRef(last);
  useEffect(() => {
    if (before.current !== undefined && last !== undefined && last !== before.current) void client.invalidateQueries({ queryKey: ["in room", room] });
    before.current = last;
  }, [client, last, room]);
  return found;
}

type Kind = "messages" | "tasks" | "memory" | "files";
type Of = { messages: Message; tasks: RoomTask; memory: Line; files: File };

/** What a room holds of a kind, the newest stretch of its ledger first; `fetchNextPage` goes further back. */
export function useHeld<K extends Kind>(room: Room, kind: K) {
  const found = useInfiniteQuery({
    queryKey: ["in room", room.id, kind],
    initialPageParam: null as number | null,
    queryFn: async ({ pageParam, signal }): Promise<Slice<Of[K]>> => {
      const upto = pageParam ?? Infinity;
      const from = Math.max(0, (pageParam ?? room.last_seq) - WINDOW);
      return slice(await whole((after) => asked(kind, room.id, after, signal), from, pageParam ?? room.last_seq), from, upto);
    },
    getNextPageParam: (page) => (page.from > 0 ? page.from : undefined),
  });
  const items = [...(found.data?.pages ?? [])].reverse().flatMap((page) => page.items);
  return { ...found, items };
}

async function asked<K extends Kind>(kind: K, room: string, after: number, signal: AbortSignal): Promise<readonly Of[K][]> {
  const given = { params: { path: { room }, query: { after, limit: 1_000 } }, signal };
  const ask = {
    messages: () => taken(api.GET("/v1/rooms/{room}/messages", given)),
    tasks: () => taken(api.GET("/v1/rooms/{room}/tasks", given)),
    memory: () => taken(api.GET("/v1/rooms/{room}/memory", given)),
    files: () => taken(api.GET("/v1/rooms/{room}/files", { ...given, params: { ...given.params, query: { ...given.params.query, versions: true } } })),
  };
  return (await ask[kind]()).items as unknown as readonly Of[K][];
}

/** The newest of a room's ledger. */
export function useLedger(room: Room) {
  return useQuery({
    queryKey: ["in room", room.id, "ledger"],
    queryFn: async ({ signal }) => (await taken(api.GET("/v1/rooms/{room}/ledger", { params: { path: { room: room.id }, query: { after: Math.max(0, room.last_seq - 1_000), limit: 1_000 } }, signal }))).links,
  });
}

export function useWakes(room: string) {
  return useQuery({ queryKey: ["in room", room, "wakes"], queryFn: ({ signal }) => taken(api.GET("/v1/rooms/{room}/wakes", { params: { path: { room } }, signal })), refetchInterval: LOOK_MS * 2 });
}

export function useRights(room: string) {
  return useQuery({ queryKey: ["in room", room, "rights"], queryFn: ({ signal }) => taken(api.GET("/v1/rooms/{room}/rights", { params: { path: { room } }, signal })) });
}

/** One's company's caps, in all rooms, and how they stand. */
export function useBudgets() {
  return useQuery({ queryKey: ["budgets"], queryFn: ({ signal }) => taken(api.GET("/v1/room-budgets", { signal })), refetchInterval: LOOK_MS * 5 });
}

export function useStops(room: string) {
  return useQuery({ queryKey: ["in room", room, "stops"], queryFn: ({ signal }) => taken(api.GET("/v1/rooms/{room}/stops", { params: { path: { room } }, signal })) });
}

/** Write into a room, and see it at once. The key makes it count once, however often it has to be sent. */
export function useWriting<T>(room: string, write: (given: T, more: { by: string; key: string }) => Promise<unknown>) {
  const client = useQueryClient();
  const [by] = useMyName();
  return useMutation({
    mutationFn: (given: T) => write(given, { by, key: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` }),
    onSettled: () => {
      void client.invalidateQueries({ queryKey: ["room", room] });
      void client.invalidateQueries({ queryKey: ["in room", room] });
    },
  });
}
