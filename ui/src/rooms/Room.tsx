/** One room: what is said, asked and kept in it, who is there, and what their agents did. */

import { Tabs } from "@base-ui/react/tabs";
import { Link, useLocation } from "wouter";
import { useApprovals } from "../approvals/data";
import { TabBar } from "../design/TabBar";
import { Icon } from "../design/icons";
import { Empty, Failed, Loading } from "../design/States";
import { Plain } from "../text/Text";
import { count } from "../text/time";
import { type Room as View, useMyCompany, useRoom } from "./data";
import { Files } from "./Files";
import { Holds, holdsOf } from "./Holds";
import { Ledger } from "./Ledger";
import { Members } from "./Members";
import { Memory } from "./Memory";
import { Talk } from "./Talk";
import { RoomTasks } from "./Tasks";
import { Wakes } from "./Wakes";
import { Company } from "./Whose";

const TABS = ["talk", "tasks", "memory", "files", "members", "wakes", "ledger"] as const;
type Tab = (typeof TABS)[number];
const WORDS: Record<Tab, string> = { talk: "Messages", tasks: "Tasks", memory: "Memory", files: "Files", members: "Members and rights", wakes: "Wakes", ledger: "Ledger" };

export function Room({ id, tab }: { id: string; tab: string }) {
  const found = useRoom(id);
  const own = useMyCompany();
  const [, go] = useLocation();
  const open = TABS.find((one) => one === tab) ?? "talk";
  if (found.isPending) return <Loading what="the room" />;
  if (!found.data) return <Failed error={found.error} again={() => void found.refetch()} />;
  const room = found.data;
  const companies = (room.members ?? []).filter((one) => one.name === "" && one.state === "joined");
  return (
    <div className="flex flex-col gap-4">
      <Link href="/rooms" className="flex w-fit items-center gap-1.5 text-sm text-quiet hover:text-ink">
        <Icon name="back" size={14} /> Rooms
      </Link>
      <header>
        <h1 className="text-xl font-semibold">
          <Plain text={room.name} />
        </h1>
        <p className="flex flex-wrap items-center gap-2 text-sm text-quiet">
          <span>
            hosted by <Company name={room.host} own={own} />
          </span>
          <span>{companies.length === 1 ? "one company" : `${count(companies.length)} companies`}</span>
        </p>
      </header>
      {room.state === "joined" ? (
        <>
          <Held room={room} open={open === "talk"} />
          <Tabs.Root value={open} onValueChange={(next: Tab) => go(`/rooms/${id}${next === "talk" ? "" : `/${next}`}`)} className="flex flex-col gap-3">
            <TabBar label="What is shown of it" tabs={TABS} words={WORDS} open={open} />
            <Tabs.Panel value={open} className="outline-offset-4">
              <Shown tab={open} room={room} />
            </Tabs.Panel>
          </Tabs.Root>
        </>
      ) : (
        <div className="card">
          <Empty icon="room" title="Your company is invited">
            Join it from the list of rooms to see what is in it.
          </Empty>
        </div>
      )}
    </div>
  );
}

/** What waits for a yes of one's company here; also while another tab is open. */
function Held({ room, open }: { room: View; open: boolean }) {
  const holds = holdsOf(useApprovals().data?.items ?? [], room.id);
  return holds.length > 0 ? <Holds key={String(open)} holds={holds} open={open} /> : null;
}

function Shown({ tab, room }: { tab: Tab; room: View }) {
  switch (tab) {
    case "talk":
      return <Talk room={room} />;
    case "tasks":
      return <RoomTasks room={room} />;
    case "memory":
      return <Memory room={room} />;
    case "files":
      return <Files room={room} />;
    case "members":
      return <Members room={room} />;
    case "wakes":
      return <Wakes room={room} />;
    case "ledger":
      return <Ledger room={room} />;
  }
}
