/** The head of an execution's page: its state, what it waits for and since when, what it cost, and what can be done. */

import { Link, useLocation } from "wouter";
import { useState } from "react";
import type { Execution } from "../api/client";
import { Ask } from "../design/Ask";
import { Button } from "../design/Button";
import { Icon } from "../design/icons";
import { isEnded, Status } from "../design/Status";
import { Ago, Span } from "../design/Time";
import type { Fork, Story, ToolStep } from "../log/story";
import { CopyButton, Id } from "../text/Copy";
import { Plain } from "../text/Text";
import { cost, count } from "../text/time";
import { Actions } from "./Actions";
import { startPlace } from "./edits";
import { ForkButton } from "./Fork";
import { testOf } from "./pytest";

export function Header({ view, story }: { view: Execution; story: Story }) {
  const tools = story.entries.filter((one): one is ToolStep => one.kind === "tool" && one.from === "");
  const attempts = tools.reduce((sum, one) => sum + one.attempts.length, 0);
  const lost = tools.reduce((sum, one) => sum + one.attempts.filter((each) => each.lost).length, 0);
  const usage = view.usage;
  return (
    <header className="card flex flex-col gap-4 p-4">
      <div className="flex flex-wrap items-start justify-between gap-3">
        <div className="flex min-w-0 flex-col gap-1">
          <div className="flex flex-wrap items-center gap-3">
            <h1 className="text-xl font-semibold">
              <Plain text={view.agent} />
            </h1>
            <Status state={view.state} />
          </div>
          <p className="flex flex-wrap items-center gap-x-2 text-sm text-quiet">
            <Id id={view.id} /> <CopyButton text={view.id} label="Copy the id" />
            {view.model ? <Plain text={view.model} /> : <span>durable function</span>}
            {(view.tags ?? []).map((tag) => (
              <span key={tag} className="rounded-sm bg-sunken px-1.5 text-xs">
                <Plain text={tag} />
              </span>
            ))}
          </p>
          {story.fork ? <From id={view.id} fork={story.fork} /> : null}
        </div>
        <div className="flex flex-col items-end gap-2 max-sm:items-start">
          <Actions view={view} />
          <More view={view} story={story} />
        </div>
      </div>
      <Waits view={view} />
      <dl className="grid grid-cols-2 gap-x-6 gap-y-3 sm:grid-cols-3 lg:grid-cols-6">
        <Fact name="Started">
          <Ago atMs={view.created_ms} />
        </Fact>
        <Fact name={isEnded(view.state) ? "Took" : "Running for"}>
          <Span fromMs={view.created_ms} toMs={view.finished_ms} />
        </Fact>
        <Fact name="Cost">{usage.model_calls === 0 ? "none yet" : cost(usage.cost_usd)}</Fact>
        <Fact name="Tokens in / out">
          {count(usage.input_tokens)} / {count(usage.output_tokens)}
        </Fact>
        <Fact name="Model calls">{count(usage.model_calls)}</Fact>
        <Fact name="Attempts at tools">
          {count(attempts)}
          {lost > 0 ? <span className="text-quiet"> ({count(lost)} lost)</span> : null}
        </Fact>
      </dl>
    </header>
  );
}

function From({ id, fork }: { id: string; fork: Fork }) {
  return (
    <p className="flex flex-wrap items-center gap-x-2 text-sm text-quiet">
      <Icon name="fork" size={14} />
      <span>
        Forked from{" "}
        <Link href={`/executions/${fork.origin}`} className="text-accent underline underline-offset-2">
          <Id id={fork.origin} short />
        </Link>{" "}
        after its event {fork.originSeq}
      </span>
      <Link href={`/compare/${fork.origin}/${id}`} className="text-accent underline underline-offset-2">
        Compare them
      </Link>
    </p>
  );
}

/** What can be made of an execution, however it stands: another one, a comparison, a test. */
function More({ view, story }: { view: Execution; story: Story }) {
  const [, go] = useLocation();
  const [asking, ask] = useState(false);
  const [copied, copy] = useState(false);
  const save = (): void => void navigator.clipboard?.writeText(testOf(view, story)).then(() => copy(true));
  return (
    <div className="-mr-3 flex flex-wrap gap-1 max-sm:mr-0 max-sm:-ml-3">
      <ForkButton place={startPlace()}>Fork</ForkButton>
      <Button look="bare" icon="compare" onClick={() => ask(true)}>
        Compare
      </Button>
      {view.model && story.entries.some((one) => one.kind === "model") ? (
        <Button look="bare" icon={copied ? "check" : "test"} onClick={save}>
          {copied ? "Copied" : "Copy as test"}
        </Button>
      ) : null}
      <Ask
        open={asking}
        title="Compare with another execution"
        about="Steps are put side by side, and the first that differs is marked."
        field="Its id"
        verb="Compare"
        given={story.fork?.origin ?? ""}
        needed
        busy={false}
        error={null}
        problem={(text) => (text.trim() && !EXECUTION_ID.test(text) ? "An id looks like exe_01…; each execution's page shows its own." : "")}
        close={() => ask(false)}
        done={(text) => go(`/compare/${EXECUTION_ID.exec(text)?.[0] ?? ""}/${view.id}`)}
      />
    </div>
  );
}

const EXECUTION_ID = /exe_\w+/;

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt className="text-xs text-quiet">{name}</dt>
      <dd className="font-medium tabular-nums">{children}</dd>
    </div>
  );
}

function Waits({ view }: { view: Execution }) {
  const reason = view.message ?? view.failure?.message;
  if (view.waits.length === 0 && !reason) return null;
  return (
    <ul className="flex flex-col gap-1.5" aria-label="What it waits for">
      {reason ? (
        <li className="toned tone-bad flex items-start gap-2 rounded-md px-3 py-2">
          <Icon name="alert" className="mt-0.5" />
          <Plain text={reason} />
        </li>
      ) : null}
      {view.waits.slice(0, 5).map((wait) => (
        <li key={`${wait.kind} ${wait.address}`} className="toned tone-wait flex items-start gap-2 rounded-md px-3 py-2">
          <Icon name={wait.kind === "approval" || wait.kind === "ruling" ? "hand" : "clock"} className="mt-0.5" />
          <span>
            Waits for <Plain text={wait.detail} />, for <Span fromMs={wait.since_ms} toMs={null} />
          </span>
        </li>
      ))}
      {view.waits.length > 5 ? <li className="text-sm text-quiet">and {view.waits.length - 5} more</li> : null}
    </ul>
  );
}
