/** Each model call and each tool call: when it was asked for, begun and ended, by whom, in how many attempts. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { api, type Task, taken } from "../api/client";
import { Button } from "../design/Button";
import { LongTable } from "../design/LongTable";
import { Empty, Refusal } from "../design/States";
import { Status } from "../design/Status";
import { Clock } from "../design/Time";
import { useMyName } from "../design/settings";
import { shown } from "../log/event";
import type { ModelStep, Story, ToolStep } from "../log/story";
import { Id } from "../text/Copy";
import { Long, Plain } from "../text/Text";
import { count, duration } from "../text/time";
import { useTask } from "./data";
import { modelPlace, toolPlace } from "./edits";
import { ForkButton } from "./Fork";

type Step = ToolStep | ModelStep;

const HEADS = ["What", "State", "Asked for", "Waited", "Started", "Ran", "Finished", "Worker", "Attempts", "Tokens"];

export function Tasks({ execution, story, tasks, chosen }: { execution: string; story: Story; tasks: readonly Task[]; chosen: string | null }) {
  const steps = useMemo(() => story.entries.filter((one): one is Step => one.kind === "tool" || one.kind === "model"), [story]);
  const [open, setOpen] = useState<string | null>(chosen);
  if (steps.length === 0) {
    return (
      <div className="card">
        <Empty icon="list" title="It has asked for nothing yet" />
      </div>
    );
  }
  const row = (at: number): React.ReactNode => {
    const one = steps[at];
    if (!one) return null;
    return (
      <>
        <Row one={one} index={at + 2} open={open === one.address} toggle={() => setOpen(open === one.address ? null : one.address)} />
        {open === one.address ? (
          <tr>
            <td colSpan={HEADS.length} className="border-b border-line bg-sunken/50 px-3 py-3">
              <div className="sticky left-3 max-w-[calc(100vw-5rem)] max-sm:max-w-[calc(100vw-3.25rem)]">
                <Detail execution={execution} one={one} task={tasks.find((task) => task.address === one.address)} />
              </div>
            </td>
          </tr>
        ) : null}
      </>
    );
  };
  return (
    <div className="card overflow-hidden">
      <LongTable label="Tasks" heads={HEADS} count={steps.length} height={38} wide="min-w-[60rem]" keyOf={(at) => `${steps[at]?.kind} ${steps[at]?.address}`} row={row} sought={steps.findIndex((one) => one.address === chosen)} />
    </div>
  );
}

function Row({ one, index, open, toggle }: { one: Step; index: number; open: boolean; toggle: () => void }) {
  const facts = factsOf(one);
  return (
    <tr aria-rowindex={index} className="hover:bg-hover">
      <th scope="row" className="border-b border-line px-3 py-2 text-left font-medium whitespace-nowrap">
        <button type="button" aria-expanded={open} onClick={toggle} className="min-w-28 text-left font-mono break-keep hover:underline">
          <Plain text={one.kind === "model" ? one.address : one.tool} />
        </button>
      </th>
      <td className="border-b border-line px-3 py-2">
        <Status of="step" state={one.kind === "model" ? one.outcome : one.state} small />
      </td>
      <Cell>{facts.askedMs === null ? "–" : <Clock atMs={facts.askedMs} />}</Cell>
      <td className="border-b border-line px-3 py-2">
        <Wait ms={facts.waitedMs} ranMs={facts.ranMs} />
      </td>
      <Cell>{facts.startedMs === null ? "–" : <Clock atMs={facts.startedMs} />}</Cell>
      <Cell>{facts.ranMs === null ? "–" : duration(facts.ranMs)}</Cell>
      <Cell>{one.endedMs === null ? "–" : <Clock atMs={one.endedMs} />}</Cell>
      <Cell>{facts.worker ? <Id id={facts.worker} short /> : "–"}</Cell>
      <Cell>
        {facts.attempts}
        {facts.lost > 0 ? `, ${facts.lost} lost` : ""}
      </Cell>
      <Cell>{one.kind === "model" ? `${count(one.tokens.input)} / ${count(one.tokens.output)}` : "–"}</Cell>
    </tr>
  );
}

function Cell({ children }: { children: React.ReactNode }) {
  return <td className="border-b border-line px-3 py-2 whitespace-nowrap text-quiet tabular-nums">{children}</td>;
}

/** The wait from asked for to begun, seen before it is read. */
function Wait({ ms, ranMs }: { ms: number | null; ranMs: number | null }) {
  if (ms === null) return <span className="text-quiet">–</span>;
  const part = ms + (ranMs ?? 0) > 0 ? ms / (ms + (ranMs ?? 0)) : 0;
  return (
    <span className="flex items-center gap-2 whitespace-nowrap text-quiet tabular-nums">
      <span aria-hidden="true" className="flex h-2 w-16 overflow-hidden rounded-full bg-line">
        <span className="h-full bg-wait" style={{ width: `${part * 100}%` }} />
        <span className="h-full flex-1 bg-run" />
      </span>
      {duration(ms)}
    </span>
  );
}

function factsOf(one: Step) {
  if (one.kind === "model") {
    return { askedMs: one.startedMs, waitedMs: null, startedMs: one.startedMs, ranMs: one.endedMs - one.startedMs, worker: "", attempts: one.repeated + 1, lost: one.repeated };
  }
  const first = one.attempts.find((each) => each.startedMs !== null);
  const last = one.attempts.at(-1);
  const startedMs = first?.startedMs ?? null;
  return {
    askedMs: one.scheduledMs ?? one.startedMs,
    waitedMs: startedMs !== null && one.scheduledMs !== null ? startedMs - one.scheduledMs : null,
    startedMs,
    ranMs: last?.startedMs != null && last.endedMs !== null ? last.endedMs - last.startedMs : null,
    worker: last?.worker ?? "",
    attempts: one.attempts.length,
    lost: one.attempts.filter((each) => each.lost).length,
  };
}

function Detail({ execution, one, task }: { execution: string; one: Step; task: Task | undefined }) {
  return one.kind === "model" ? <OfModel one={one} /> : <OfTool execution={execution} one={one} known={task} />;
}

function OfModel({ one }: { one: ModelStep }) {
  return (
    <div className="flex flex-col gap-2">
      <p className="text-quiet">
        <Plain text={one.model} />, finish reason {one.finish || "none"}
      </p>
      {one.text ? <Long text={one.text} label="text" mono={false} /> : null}
      {one.calls.length > 0 ? <Long text={one.calls.map((call) => `${call.name} ${call.args}`).join("\n")} label="calls" /> : null}
      <div>
        <ForkButton place={modelPlace(one)} look="plain" />
      </div>
    </div>
  );
}

function OfTool({ execution, one, known }: { execution: string; one: ToolStep; known: Task | undefined }) {
  const task = useTask(execution, one.address, one.seq, known);
  const place = toolPlace(one);
  return (
    <div className="flex flex-col gap-2">
      <p className="font-mono text-quiet">
        <Plain text={one.address} />
        {task ? `, queue ${task.queue}, ${task.delivery.replaceAll("_", " ")}` : ""}
      </p>
      <Long text={shown(one.args)} label="arguments" />
      <ol className="flex flex-col gap-1">
        {one.attempts.map((each, at) => (
          <li key={at} className="text-quiet">
            Attempt {each.number}, {each.worker ? <Plain text={each.worker} /> : "no worker"}:{" "}
            {each.lost ? "lost" : each.endedMs === null ? "running" : each.error ? "failed" : "done"}
            {each.startedMs !== null && each.endedMs !== null ? ` after ${duration(each.endedMs - each.startedMs)}` : ""}
            {each.error ? (
              <>
                : <Plain text={each.error} />
              </>
            ) : null}
          </li>
        ))}
      </ol>
      {one.value !== undefined && one.value !== null ? <Long text={shown(one.value)} label="result" /> : null}
      {place ? (
        <div>
          <ForkButton place={place} look="plain" />
        </div>
      ) : null}
      {task?.state === "dead" && one.state === "dead" ? <Retry execution={execution} address={one.address} /> : null}
    </div>
  );
}

/** Put a call that failed for good back on its queue. */
function Retry({ execution, address }: { execution: string; address: string }) {
  const client = useQueryClient();
  const [name] = useMyName();
  const retry = useMutation({
    mutationFn: () => taken(api.POST("/v1/executions/{execution}/tasks/retry", { params: { path: { execution } }, body: { address, by: name, reason: "" } })),
    onSettled: () => void client.invalidateQueries({ queryKey: ["execution", execution] }),
  });
  return (
    <div className="flex flex-col items-start gap-2">
      <Button icon="retry" busy={retry.isPending} onClick={() => retry.mutate()}>
        Try it again
      </Button>
      <Refusal error={retry.error} />
    </div>
  );
}
