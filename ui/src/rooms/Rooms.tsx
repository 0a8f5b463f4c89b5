/** The rooms that one's company is in or may join. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Link, useLocation } from "wouter";
import { api, taken } from "../api/client";
import { Button } from "../design/Button";
import { Section } from "../design/Section";
import { Empty, Failed, Loading, Refusal } from "../design/States";
import { type Column, Table } from "../design/Table";
import { Ago } from "../design/Time";
import { useMyName } from "../design/settings";
import { Plain } from "../text/Text";
import { count } from "../text/time";
import { type Room, useMyCompany, useRooms } from "./data";
import { Company } from "./Whose";

export function Rooms() {
  const found = useRooms();
  const own = useMyCompany();
  const rooms = found.data?.items ?? [];
  const columns: Column<Room>[] = [
    {
      head: "Room",
      cell: (one) =>
        one.state === "joined" ? (
          <Link href={`/rooms/${one.id}`} className="font-medium hover:text-accent hover:underline">
            <Plain text={one.name} />
          </Link>
        ) : (
          <span className="font-medium">
            <Plain text={one.name} />
          </span>
        ),
    },
    { head: "Host", cell: (one) => <Company name={one.host} own={own} /> },
    {
      head: "Made",
      cell: (one) => (
        <span className="text-quiet">
          by <Plain text={one.created_by} /> <Ago atMs={one.created_ms} />
        </span>
      ),
    },
    { head: "Acts", number: true, cell: (one) => (one.state === "joined" ? count(one.last_seq) : <span className="text-faint">–</span>) },
    { head: "Join", bare: true, cell: (one) => (one.state === "joined" ? null : <Join room={one} />) },
  ];
  return (
    <div className="flex flex-col gap-4">
      <h1 className="text-xl font-semibold">Rooms</h1>
      <Section title="Yours" about="Where agents and people of several companies work on one project. You see those that your company is in, or may join." actions={<Make />}>
        {found.isPending ? (
          <Loading what="rooms" />
        ) : found.data === undefined ? (
          <Failed error={found.error} again={() => void found.refetch()} />
        ) : rooms.length === 0 ? (
          <Empty icon="room" title="Your company is in no room">
            Make one here, or have another company invite yours.
          </Empty>
        ) : (
          <Table label="Rooms" columns={columns} items={rooms} keyOf={(one) => one.id} />
        )}
      </Section>
    </div>
  );
}

function Make() {
  const [name, type] = useState("");
  const [by] = useMyName();
  const [, go] = useLocation();
  const client = useQueryClient();
  const make = useMutation({
    mutationFn: () => taken(api.POST("/v1/rooms", { body: { name: name.trim(), by, key: "" } })),
    onSuccess: (made) => {
      void client.invalidateQueries({ queryKey: ["rooms"] });
      go(`/rooms/${made.id}`);
    },
  });
  const send = (event: FormEvent): void => {
    event.preventDefault();
    if (name.trim()) make.mutate();
  };
  return (
    <form onSubmit={send} className="flex flex-wrap items-center gap-2">
      <input aria-label="Name of a new room" placeholder="Name of a new room" maxLength={200} className="field w-48 text-sm" value={name} onChange={(event) => type(event.target.value)} />
      <Button icon="plus" type="submit" busy={make.isPending} disabled={!name.trim()}>
        Make it
      </Button>
      <Refusal error={make.error} />
    </form>
  );
}

function Join({ room }: { room: Room }) {
  const client = useQueryClient();
  const [by] = useMyName();
  const join = useMutation({
    mutationFn: () => taken(api.POST("/v1/rooms/{room}/join", { params: { path: { room: room.id } }, body: { by } })),
    onSettled: () => void client.invalidateQueries({ queryKey: ["rooms"] }),
  });
  return (
    <div className="flex flex-col items-end gap-1">
      <Button busy={join.isPending} onClick={() => join.mutate()} aria-label={`Join ${room.name}`}>
        Join
      </Button>
      <Refusal error={join.error} />
    </div>
  );
}
