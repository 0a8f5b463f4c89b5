/** Starts by the calendar: what begins when, and what began last. */

import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import { Button } from "../design/Button";
import { Confirm } from "../design/Confirm";
import { Icon } from "../design/icons";
import { Empty, Failed, Loading, Refusal } from "../design/States";
import { Ago, Exact } from "../design/Time";
import { shown } from "../log/event";
import { Id } from "../text/Copy";
import { Long, Plain } from "../text/Text";
import { type Schedule, useActing, useSchedules, useTicks, type Verb } from "./data";

export function Schedules() {
  const found = useSchedules();
  const schedules = found.data?.items ?? [];
  return (
    <div className="flex flex-col gap-4">
      <h1 className="text-xl font-semibold">Schedules</h1>
      {found.isPending ? (
        <Loading what="schedules" />
      ) : found.data === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : schedules.length === 0 ? (
        <div className="card">
          <Empty icon="calendar" title="Nothing begins by the calendar">
            <p>Make a schedule for an agent or a durable function:</p>
            <pre className="mt-3 rounded-md bg-sunken p-3 text-left font-mono text-sm whitespace-pre-wrap">{'perdure schedules create nightly MODULE:AGENT --cron "30 2 * * *"'}</pre>
          </Empty>
        </div>
      ) : (
        <ul aria-label="Schedules" className="flex flex-col gap-3">
          {schedules.map((one) => (
            <li key={one.name}>
              <Card one={one} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Card({ one }: { one: Schedule }) {
  const act = useActing(one.name);
  const [asking, ask] = useState(false);
  const [open, show] = useState(false);
  const busy = (verb: Verb): boolean => act.isPending && act.variables === verb;
  return (
    <article aria-label={one.name} className="card flex flex-col gap-3 p-4">
      <header className="flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          <h2 className="flex flex-wrap items-center gap-2 text-lg font-semibold">
            <Plain text={one.name} />
            <On paused={one.paused} />
          </h2>
          <p className="text-sm text-quiet">
            begins{" "}
            <Link href={`/agents/${encodeURIComponent(one.agent)}`} className="font-medium text-accent underline underline-offset-2">
              <Plain text={one.agent} />
            </Link>{" "}
            at <code className="font-mono text-ink">{one.cron}</code> in {one.zone}
          </p>
        </div>
        <div className="flex flex-wrap gap-2">
          <Button icon={one.paused ? "play" : "pause"} busy={busy("pause") || busy("resume")} onClick={() => act.mutate(one.paused ? "resume" : "pause")}>
            {one.paused ? "Resume" : "Pause"}
          </Button>
          <Button icon="arrow" busy={busy("trigger")} onClick={() => act.mutate("trigger")}>
            Begin now
          </Button>
          <Button icon="close" look="danger" onClick={() => ask(true)}>
            Delete
          </Button>
        </div>
      </header>
      <dl className="grid gap-x-8 gap-y-2 text-sm sm:grid-cols-[auto_auto_1fr]">
        <Fact name="Next">{one.next_ms === null ? "not while it is paused" : <Ago atMs={one.next_ms} />}</Fact>
        <Fact name="Last">
          {one.last_tick_ms === null ? "never yet" : <Ago atMs={one.last_tick_ms} />}
          {one.last_execution ? (
            <>
              {" "}
              <Link href={`/executions/${one.last_execution}`} className="text-accent underline underline-offset-2">
                <Id id={one.last_execution} short />
              </Link>
            </>
          ) : null}
        </Fact>
        <Fact name="Missed ticks">{MISSED[one.missed] ?? one.missed}</Fact>
        {one.overlap === "skip" ? (
          <Fact name="While one goes on">
            ticks begin nothing
            {one.last_skipped_ms != null ? (
              <>
                : {one.skipped} skipped, the last <Ago atMs={one.last_skipped_ms} />
              </>
            ) : null}
          </Fact>
        ) : null}
      </dl>
      {asking ? null : <Refusal error={act.error} />}
      <details onToggle={(event) => show(event.currentTarget.open)}>
        <summary className="text-sm text-accent">Next times, input and tags</summary>
        {open ? <More one={one} /> : null}
      </details>
      <Confirm
        open={asking}
        title={`Delete ${one.name}?`}
        about="What it began goes on. It begins nothing more, and there is no way back but to make it anew."
        verb="Delete it"
        busy={busy("delete")}
        error={act.error}
        close={() => ask(false)}
        done={() => act.mutate("delete", { onSuccess: () => ask(false) })}
      />
    </article>
  );
}

const MISSED: Record<string, string> = { skip: "are left out", one: "the latest is made up for", all: "all are made up for" };

function On({ paused }: { paused: boolean }) {
  return (
    <span className={`toned inline-flex items-center gap-1.5 rounded-full px-2 py-px text-xs font-medium ${paused ? "tone-hold" : "tone-good"}`}>
      <Icon name={paused ? "pause" : "check"} size={12} /> {paused ? "Paused" : "On"}
    </span>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt className="text-xs text-quiet">{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function More({ one }: { one: Schedule }) {
  const ticks = useTicks(one, true);
  const tags = one.tags ?? [];
  return (
    <div className="mt-2 flex flex-col gap-3 text-sm">
      {ticks.isPending ? (
        <Loading what="its next times" />
      ) : ticks.data === undefined ? (
        <Failed error={ticks.error} again={() => void ticks.refetch()} />
      ) : (
        <ol aria-label="Next times" className="flex flex-col gap-0.5">
          {ticks.data.items.map((at) => (
            <li key={at}>
              <Exact atMs={at} /> <span className="text-quiet">({one.paused ? "if it is resumed, " : ""}<Ago atMs={at} />)</span>
            </li>
          ))}
        </ol>
      )}
      <Long text={shown(one.input)} label={`input of ${one.name}`} />
      <p className="text-quiet">
        Made by <Plain text={one.created_by || "somebody"} /> <Ago atMs={one.created_ms} />
        {tags.length > 0 ? (
          <>
            , with the tags <Plain text={tags.join(", ")} />
          </>
        ) : null}
        .
      </p>
    </div>
  );
}
