/** Who works here, what waits for whom, and what has failed for good. */

import { Link } from "wouter";
import { Button } from "../design/Button";
import { Icon } from "../design/icons";
import { Section } from "../design/Section";
import { Empty, Failed, Loading, Refusal } from "../design/States";
import { type Column, Table } from "../design/Table";
import { Ago, Span } from "../design/Time";
import { useMyName } from "../design/settings";
import { Plain } from "../text/Text";
import { count, plural } from "../text/time";
import { useHeld, usePausing, useQueues, useWorkers } from "./data";
import { Dead } from "./Dead";
import { LimitsButton } from "./Limits";
import { type Gone, gone, limits, type Queue, SERVER_QUEUE, servedBy, serves, type Worker, withServed } from "./lanes";

export function Workers() {
  return (
    <div className="flex flex-col gap-4">
      <h1 className="text-xl font-semibold">Workers and queues</h1>
      <Queues />
      <WorkerList />
      <Dead />
    </div>
  );
}

function Queues() {
  const found = useQueues();
  const workers = useWorkers();
  const [name] = useMyName();
  const pausing = usePausing(name);
  const served = servedBy(workers.data?.items ?? []);
  const queues = withServed(found.data?.items ?? [], served);
  const columns: Column<Queue>[] = [
    { head: "Queue", cell: (one) => <Name queue={one} /> },
    { head: "Gives out", cell: (one) => <Gives paused={one.paused} /> },
    { head: "Waiting", number: true, cell: (one) => count(one.backlog) },
    { head: "Oldest waits", number: true, cell: (one) => (one.oldest_ms === null ? <span className="text-faint">–</span> : <Span fromMs={one.oldest_ms} toMs={null} />) },
    { head: "Under way", number: true, cell: (one) => (one.concurrency === null ? count(one.leased) : `${count(one.leased)} of ${count(one.concurrency)}`) },
    { head: "Limits", cell: (one) => <Limited queue={one} /> },
    { head: "Served by", cell: (one) => <Served queue={one} by={served.get(one.name) ?? 0} /> },
    {
      head: "Change it",
      bare: true,
      cell: (one) => (
        <span className="inline-flex flex-wrap justify-end gap-2">
          <LimitsButton queue={one} />
          <Button icon={one.paused ? "play" : "pause"} busy={pausing.isPending && pausing.variables.queue === one.name} onClick={() => pausing.mutate({ queue: one.name, pause: !one.paused })} aria-label={`${one.paused ? "Resume" : "Pause"} ${one.name}`}>
            {one.paused ? "Resume" : "Pause"}
          </Button>
        </span>
      ),
    },
  ];
  return (
    <Section title="Queues" about="Limits and pauses hold back what would be given out next, at all servers. What is under way goes on.">
      {pausing.error ? <Refusal error={pausing.error} /> : null}
      {found.isPending ? (
        <Loading what="queues" />
      ) : found.data === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : queues.length === 0 ? (
        <Empty icon="stack" title="No queue holds anything">
          A queue is there as soon as a worker serves a tool, or an agent calls one.
        </Empty>
      ) : (
        <Table label="Queues" columns={columns} items={queues} keyOf={(one) => one.name} />
      )}
    </Section>
  );
}

function Name({ queue }: { queue: Queue }) {
  return (
    <span className="font-mono font-medium">
      <Plain text={queue.name} />
      {queue.name === SERVER_QUEUE ? <span className="ml-2 font-sans text-xs font-normal text-quiet">tools that servers call</span> : null}
    </span>
  );
}

function Gives({ paused }: { paused: boolean }) {
  return (
    <span className={`toned inline-flex items-center gap-1.5 rounded-full px-2 py-px text-xs font-medium whitespace-nowrap ${paused ? "tone-hold" : "tone-good"}`}>
      <Icon name={paused ? "pause" : "check"} size={12} /> {paused ? "Paused" : "Open"}
    </span>
  );
}

function Limited({ queue }: { queue: Queue }) {
  return (
    <div>
      {limits(queue) || <span className="text-faint">none</span>}
      {queue.changed_ms == null ? null : (
        <p className="text-xs text-quiet">
          changed <Ago atMs={queue.changed_ms} /> by <Plain text={queue.changed_by || "somebody"} />
        </p>
      )}
    </div>
  );
}

function Served({ queue, by }: { queue: Queue; by: number }) {
  if (queue.name === SERVER_QUEUE) return <span className="text-quiet">the servers</span>;
  if (by > 0) return <span>{plural(by, "worker")}</span>;
  return queue.backlog > 0 ? (
    <span className="tone-bad inline-flex items-center gap-1.5 font-medium text-(--tone)">
      <Icon name="alert" size={13} /> nobody
    </span>
  ) : (
    <span className="text-faint">nobody</span>
  );
}

function WorkerList() {
  const found = useWorkers();
  const held = useHeld().data?.items ?? [];
  const workers = found.data?.items ?? [];
  const busy = new Map(held.map((one) => [one.worker, one.held]));
  const columns: Column<Worker>[] = [
    {
      head: "Worker",
      cell: (one) => (
        <div>
          <p className="font-medium">
            <Plain text={one.name} />
          </p>
          <p className="text-xs text-quiet">
            <Plain text={[one.host, one.pid ? `process ${one.pid}` : ""].filter(Boolean).join(", ")} />
          </p>
        </div>
      ),
    },
    { head: "Slots", cell: (one) => <Slots used={busy.get(one.worker) ?? 0} of={one.slots ?? 0} /> },
    { head: "Serves", cell: (one) => <Serving worker={one} /> },
  ];
  return (
    <Section title="Workers" about="Those that are connected now. One that is gone hands back what it has, or its leases end.">
      {found.isPending ? (
        <Loading what="workers" />
      ) : found.data === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : workers.length === 0 ? (
        <Empty icon="tool" title="No worker is connected">
          <p>Calls of tools wait in their queues until one is. Start one where the tools are:</p>
          <pre className="mt-3 rounded-md bg-sunken p-3 text-left font-mono text-sm">perdure worker MODULE:AGENT</pre>
        </Empty>
      ) : (
        <Table label="Workers" columns={columns} items={workers} keyOf={(one) => one.worker} />
      )}
      {found.data ? <Missing gone={gone(workers, held)} /> : null}
    </Section>
  );
}

function Missing({ gone }: { gone: readonly Gone[] }) {
  if (gone.length === 0) return null;
  const tasks = gone.reduce((sum, one) => sum + one.held, 0);
  return (
    <p role="status" className="toned tone-wait flex items-center gap-2 border-x-0 border-b-0 px-4 py-2.5 text-sm">
      <Icon name="alert" /> {plural(gone.length, "worker")} that {gone.length === 1 ? "is" : "are"} not connected still {gone.length === 1 ? "has" : "have"} {plural(tasks, "task")}. Others are given {tasks === 1 ? "it" : "them"} when the leases end.
    </p>
  );
}

function Slots({ used, of }: { used: number; of: number }) {
  return (
    <span className="inline-flex items-center gap-2 whitespace-nowrap tabular-nums">
      <span aria-hidden="true" className="flex gap-0.5">
        {Array.from({ length: Math.min(of, 10) }, (_, at) => (
          <span key={at} className={`h-3 w-1.5 rounded-[2px] ${at < Math.ceil((used / Math.max(of, 1)) * Math.min(of, 10)) ? "bg-run" : "bg-line"}`} />
        ))}
      </span>
      {count(used)} of {count(of)}
    </span>
  );
}

function Serving({ worker }: { worker: Worker }) {
  const tools = serves(worker);
  const functions = worker.functions ?? [];
  return (
    <ul className="flex flex-col gap-1 max-md:items-end">
      {tools.map((one) => (
        <li key={`${one.agent} ${one.queue}`}>
          <Link href={`/executions?agent=${encodeURIComponent(one.agent)}`} className="font-medium hover:text-accent hover:underline">
            <Plain text={one.agent} />
          </Link>{" "}
          <span className="font-mono text-[0.92em] text-quiet">
            <Plain text={one.tools.join(", ")} />
          </span>
          {one.queue === "default" ? null : (
            <span className="ml-1 text-xs text-quiet">
              on <Plain text={one.queue} />
            </span>
          )}
        </li>
      ))}
      {functions.map((one) => (
        <li key={`${one.name} ${one.build}`}>
          <span className="font-medium">
            <Plain text={one.name} />
          </span>{" "}
          <span className="text-xs text-quiet">
            durable function, build <Plain text={one.build || "unnamed"} />
          </span>
        </li>
      ))}
      {tools.length + functions.length === 0 ? <li className="text-faint">nothing</li> : null}
    </ul>
  );
}
