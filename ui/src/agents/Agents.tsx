/** The agents and durable functions that something was begun with, each as it is now. */

import { Link } from "wouter";
import { Button } from "../design/Button";
import { Section } from "../design/Section";
import { Empty, Failed, Loading } from "../design/States";
import { type Column, Table } from "../design/Table";
import { Ago } from "../design/Time";
import { Plain } from "../text/Text";
import { count, plural } from "../text/time";
import { type Agent, useAgents } from "./data";
import { KINDS } from "./kinds";

const MANY = 100;
const FEW_TOOLS = 4;

export function Agents() {
  const found = useAgents();
  const agents = found.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <div className="flex flex-col gap-4">
      <h1 className="text-xl font-semibold">Agents</h1>
      <Section title="Definitions" about="As the newest execution of each began with it. A definition is kept with the first execution that has it.">
        {found.isPending ? (
          <Loading what="agents" />
        ) : found.data === undefined ? (
          <Failed error={found.error} again={() => void found.refetch()} />
        ) : agents.length === 0 ? (
          <Empty icon="agent" title="There is no agent yet">
            An agent is known once an execution of it was begun.
          </Empty>
        ) : (
          <Table label="Agents" columns={COLUMNS} items={agents} keyOf={(one) => one.name} />
        )}
        {found.hasNextPage ? (
          <div className="border-t border-line p-3 text-center">
            <Button busy={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
              Show more
            </Button>
          </div>
        ) : null}
      </Section>
    </div>
  );
}

const COLUMNS: Column<Agent>[] = [
  {
    head: "Agent",
    cell: (one) => (
      <div>
        <Link href={`/agents/${encodeURIComponent(one.name)}`} className="font-medium hover:text-accent hover:underline">
          <Plain text={one.name} />
        </Link>
        <p className="text-xs text-quiet">{KINDS[one.kind]}</p>
      </div>
    ),
  },
  {
    head: "Model",
    cell: (one) =>
      one.model ? (
        <span className="font-mono text-[0.92em]">
          <Plain text={one.model} />
        </span>
      ) : (
        <span className="text-faint">none</span>
      ),
  },
  { head: "Tools", cell: (one) => <Tools names={one.tools} /> },
  { head: "Versions", number: true, cell: (one) => (one.versions >= MANY ? `${count(MANY)}+` : count(one.versions)) },
  { head: "Newest first ran", cell: (one) => <Ago atMs={one.since_ms} /> },
  {
    head: "Executions",
    bare: true,
    cell: (one) => (
      <Link href={`/executions?agent=${encodeURIComponent(one.name)}`} className="text-accent underline underline-offset-2">
        Executions<span className="sr-only"> of {one.name}</span>
      </Link>
    ),
  },
];

function Tools({ names }: { names: readonly string[] }) {
  if (names.length === 0) return <span className="text-faint">none</span>;
  return (
    <span className="font-mono text-[0.92em] text-quiet">
      <Plain text={names.slice(0, FEW_TOOLS).join(", ")} />
      {names.length > FEW_TOOLS ? <span className="font-sans"> and {plural(names.length - FEW_TOOLS, "more tool")}</span> : null}
    </span>
  );
}
