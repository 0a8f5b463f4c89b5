/** One execution: how it stands, what it waits for, what it did and is doing. */

import { Tabs } from "@base-ui/react/tabs";
import { lazy, Suspense, useState } from "react";
import { Link, useLocation } from "wouter";
import { Failed, Loading } from "../design/States";
import { TabBar } from "../design/TabBar";
import { Icon } from "../design/icons";
import { Conversation } from "./Conversation";
import { Effects } from "./Effects";
import { Events } from "./Events";
import { Forking } from "./Fork";
import { Header } from "./Header";
import { Tasks } from "./Tasks";
import { Timeline } from "./Timeline";
import { useExecution, useLog, useStory, useTasks } from "./data";

/** Loaded when it is first looked at: most pages do without. */
const Graph = lazy(() => import("./Graph"));

const TABS = ["conversation", "timeline", "graph", "tasks", "events", "effects"] as const;
type Tab = (typeof TABS)[number];
const WORDS: Record<Tab, string> = { conversation: "Conversation", timeline: "Timeline", graph: "Graph", tasks: "Tasks", events: "Events", effects: "Effects" };

export function Execution({ id, tab }: { id: string; tab: string }) {
  const view = useExecution(id);
  const held = useLog(id);
  const tasks = useTasks(id, view.data?.finished_ms === null);
  const story = useStory(held, tasks);
  const [, go] = useLocation();
  const [chosen, choose] = useState<string | null>(null);

  if (view.isPending) return <Loading what="the execution" />;
  if (!view.data) return <Failed error={view.error} again={() => void view.refetch()} />;
  const first: Tab = view.data.model ? "conversation" : "timeline";
  const open = TABS.find((one) => one === tab) ?? first;
  const tabs = view.data.model ? TABS : TABS.filter((one) => one !== "conversation");
  const show = (address: string): void => {
    choose(address);
    go(`/executions/${id}/tasks`);
  };

  return (
    <Forking view={view.data}>
      <div className="flex flex-col gap-4">
        <Link href="/executions" className="flex w-fit items-center gap-1.5 text-sm text-quiet hover:text-ink">
          <Icon name="back" size={14} /> Executions
        </Link>
        <Header view={view.data} story={story} />
        <Tabs.Root value={open} onValueChange={(next: Tab) => go(`/executions/${id}${next === first ? "" : `/${next}`}`)} className="flex flex-col gap-3">
          <TabBar label="What is shown of it" tabs={tabs} words={WORDS} open={open} />
          <Tabs.Panel value={open} className="outline-offset-4">
            {held.error && held.events.length === 0 ? (
              <Failed error={new Error(held.error)} />
            ) : !held.whole && held.events.length === 0 ? (
              <Loading what="its log" />
            ) : (
              <Shown tab={open} id={id} held={held} story={story} view={view.data} tasks={tasks} chosen={chosen} show={show} />
            )}
          </Tabs.Panel>
        </Tabs.Root>
      </div>
    </Forking>
  );
}

type ShownProps = {
  tab: Tab;
  id: string;
  held: ReturnType<typeof useLog>;
  story: ReturnType<typeof useStory>;
  view: NonNullable<ReturnType<typeof useExecution>["data"]>;
  tasks: ReturnType<typeof useTasks>;
  chosen: string | null;
  show: (address: string) => void;
};

function Shown({ tab, id, held, story, view, tasks, chosen, show }: ShownProps) {
  switch (tab) {
    case "conversation":
      return <Conversation view={view} story={story} />;
    case "timeline":
      return <Timeline story={story} ended={view.finished_ms !== null} show={show} />;
    case "graph":
      return (
        <Suspense fallback={<Loading what="the graph" />}>
          <Graph view={view} story={story} events={held.events} show={show} />
        </Suspense>
      );
    case "tasks":
      return <Tasks execution={id} story={story} tasks={tasks} chosen={chosen} />;
    case "events":
      return <Events events={held.events} live={view.finished_ms === null} />;
    case "effects":
      return <Effects execution={id} />;
  }
}
