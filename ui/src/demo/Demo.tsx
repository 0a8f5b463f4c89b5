/** The crash demo: a run whose worker somebody kills here, and which goes on with another one. */

import { Link } from "wouter";
import { Button } from "../design/Button";
import { Icon, type IconName } from "../design/icons";
import { Section } from "../design/Section";
import { Empty, Failed, Loading, Refusal } from "../design/States";
import { isEnded, type Tone } from "../design/Status";
import { Span } from "../design/Time";
import { useExecution, useLog, useProof, useStory, useTasks } from "../execution/data";
import { Command } from "../text/Copy";
import { Plain } from "../text/Text";
import { count, plural } from "../text/time";
import { type Demo as DemoView, type DemoWorker, useBegin, useDemo, useKill } from "./data";
import { type Figures, figuresOf, type Part, partsOf } from "./figures";

export function Demo() {
  const demo = useDemo();
  if (demo.isPending) return <Loading what="the demo" />;
  if (demo.data === undefined) return <Failed error={demo.error} again={() => void demo.refetch()} />;
  return (
    <div className="mx-auto flex w-full max-w-3xl flex-col gap-4">
      <div>
        <h1 className="text-xl font-semibold">Crash demo</h1>
        <p className="text-quiet">An agent looks five parcels up, one after the other. Kill the process that does it, and see the run go on.</p>
      </div>
      {!demo.data.available ? <NotHere /> : demo.data.execution ? <Run demo={demo.data} execution={demo.data.execution} /> : <Offer />}
    </div>
  );
}

function NotHere() {
  return (
    <div className="card">
      <Empty icon="stack" title="This server plays no demo here">
        <p>It does so for its admin key alone, and only on a machine and a store of its own. In a terminal there is one without a server:</p>
        <div className="mx-auto mt-3 w-fit text-left">
          <Command text="perdure demo" />
        </div>
      </Empty>
    </div>
  );
}

function Offer() {
  return (
    <div className="card flex flex-col items-start gap-4 p-5">
      <ul className="flex list-disc flex-col gap-1 pl-5 text-quiet">
        <li>The server starts a real process for it: a worker, as one would start it in a terminal.</li>
        <li>The model is scripted, and says so. No key is needed, no provider is asked, nothing is paid.</li>
        <li>The button sends that process a SIGKILL, which no program can catch. It may be pressed at any moment.</li>
      </ul>
      <Begin />
    </div>
  );
}

function Begin({ again = false }: { again?: boolean }) {
  const begin = useBegin();
  return (
    <>
      <Button look={again ? "plain" : "main"} icon={again ? "retry" : "play"} busy={begin.isPending} onClick={() => begin.mutate()}>
        {again ? "Play it again" : "Start the demo"}
      </Button>
      <Refusal error={begin.error} />
    </>
  );
}

function Run({ demo, execution }: { demo: DemoView; execution: string }) {
  const view = useExecution(execution);
  const held = useLog(execution);
  const tasks = useTasks(execution, view.data?.finished_ms === null);
  const story = useStory(held, tasks);
  const workers = demo.workers ?? [];
  const killed = workers.flatMap((one) => (one.killed && one.ended_ms != null ? [one.ended_ms] : []));
  const parts = partsOf(story, demo.steps ?? 0, killed);
  const state = view.data?.state ?? "ready";
  const ended = isEnded(state);
  return (
    <>
      <Section
        title="Processes"
        about="Workers of this run. The server is another process, and is not touched."
        actions={ended || !demo.runs ? null : <Kill left={demo.kills_left ?? 0} there={workers.some(serves)} />}
      >
        <Workers workers={workers} ended={ended} />
      </Section>
      <Section title="Steps" about={<Told parts={parts} ended={ended} />} actions={<Whole execution={execution} />}>
        <Steps parts={parts} workers={workers} />
      </Section>
      {ended && held.whole ? <Outcome execution={execution} state={state} figures={figuresOf(held.events)} workers={workers} /> : null}
      {!demo.runs ? (
        <div className="flex flex-wrap items-center gap-3">
          <Begin again />
        </div>
      ) : null}
    </>
  );
}

function Whole({ execution }: { execution: string }) {
  return (
    <Link href={`/executions/${execution}`} className="text-sm text-accent underline underline-offset-2">
      The execution
    </Link>
  );
}

function serves(one: DemoWorker): boolean {
  return one.ready_ms != null && one.ended_ms == null;
}

function Kill({ left, there }: { left: number; there: boolean }) {
  const kill = useKill();
  const why = left === 0 ? "The last one is left alone, so that the run ends." : there ? "" : "Nobody is there to be killed just now.";
  return (
    <div className="flex flex-col gap-1">
      <Button look="danger" icon="close" busy={kill.isPending} disabled={why !== ""} onClick={() => kill.mutate()} aria-describedby="kill-why">
        Kill the worker
      </Button>
      <p id="kill-why" className="text-xs text-quiet empty:hidden">
        {why}
      </p>
      {kill.error && why === "" ? <Refusal error={kill.error} /> : null}
    </div>
  );
}

type Look = { readonly tone: Tone; readonly icon: IconName; readonly word: string; readonly turns?: boolean };

function lookOf(one: DemoWorker): Look {
  if (one.killed) return { tone: "bad", icon: "close", word: "Killed" };
  if (one.ended_ms != null) return { tone: "off", icon: "stop", word: "Ended" };
  return one.ready_ms == null ? { tone: "wait", icon: "spinner", word: "Starting", turns: true } : { tone: "good", icon: "check", word: "Serving" };
}

function Workers({ workers, ended }: { workers: readonly DemoWorker[]; ended: boolean }) {
  const nobody = !ended && workers.every((one) => one.ended_ms != null);
  return (
    <>
      <ol className="divide-y divide-line" aria-label="Workers">
        {workers.map((one, at) => {
          const look = lookOf(one);
          return (
            <li key={one.pid} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2.5 text-sm">
              <span className="font-medium">Worker {at + 1}</span>
              <span className="font-mono text-quiet">process {one.pid}</span>
              <span className={`toned tone-${look.tone} inline-flex items-center gap-1.5 rounded-full px-2 py-px text-xs font-medium`}>
                <Icon name={look.icon} size={12} className={look.turns ? "turning" : ""} /> {look.word}
                {one.killed ? " by SIGKILL" : ""}
              </span>
              <span className="ml-auto text-quiet">
                <Span fromMs={one.started_ms} toMs={one.ended_ms ?? null} />
              </span>
            </li>
          );
        })}
      </ol>
      {nobody ? (
        <p role="status" className="toned tone-wait flex items-center gap-2 border-x-0 border-b-0 px-4 py-2.5 text-sm">
          <Icon name="clock" /> {workers.length === 0 ? "The first worker is being started." : "No worker is there. The next one is started in a moment; what is recorded stays."}
        </p>
      ) : null}
    </>
  );
}

function Told({ parts, ended }: { parts: readonly Part[]; ended: boolean }) {
  const recorded = parts.filter((one) => one.state === "recorded").length;
  return (
    <span aria-live="polite">
      {recorded} of {parts.length} recorded{ended ? ". The run has ended." : ""}
    </span>
  );
}

const SEGMENTS = { recorded: "bg-good", running: "bg-run", queued: "bg-wait", next: "bg-line" } as const;
const WORDS: Record<Part["state"], { readonly tone: Tone; readonly icon: IconName; readonly word: string }> = {
  recorded: { tone: "good", icon: "check", word: "Recorded" },
  running: { tone: "run", icon: "spinner", word: "Running" },
  queued: { tone: "wait", icon: "clock", word: "Waits for a worker" },
  next: { tone: "off", icon: "clock", word: "To come" },
};

function Steps({ parts, workers }: { parts: readonly Part[]; workers: readonly DemoWorker[] }) {
  const recorded = parts.filter((one) => one.state === "recorded").length;
  const names = new Map(workers.map((one, at) => [one.worker, `worker ${at + 1}`]));
  return (
    <>
      <div className="flex gap-1 px-4 pt-4" role="progressbar" aria-label="Steps recorded" aria-valuemin={0} aria-valuemax={parts.length} aria-valuenow={recorded}>
        {parts.map((one, at) => (
          <span key={at} className={`relative h-3 min-w-0 flex-1 rounded-sm ${SEGMENTS[one.state]}`}>
            {one.kills > 0 ? <span className="absolute -top-1 left-1/2 h-5 w-1 -translate-x-1/2 rounded-sm bg-bad" /> : null}
          </span>
        ))}
      </div>
      <ol className="gap-x-8 px-4 py-3 text-sm sm:columns-2" aria-label="Steps">
        {parts.map((one, at) => (
          <li key={at} className="flex min-h-8 break-inside-avoid items-center gap-2">
            <span className="w-5 text-right text-faint tabular-nums">{at + 1}</span>
            <span className={`tone-${WORDS[one.state].tone} text-(--tone)`}>
              <Icon name={WORDS[one.state].icon} size={14} className={one.state === "running" ? "turning" : ""} />
            </span>
            <span className={one.label ? "font-medium" : "text-faint"}>{one.label || WORDS.next.word}</span>
            <span className="sr-only">{one.label ? WORDS[one.state].word : ""}</span>
            <span className="truncate text-quiet">{one.state === "recorded" ? names.get(one.worker) : one.label ? WORDS[one.state].word.toLowerCase() : ""}</span>
            {one.kills > 0 ? (
              <span className="toned tone-bad ml-auto inline-flex items-center gap-1 rounded-full px-2 text-xs font-medium whitespace-nowrap">
                <Icon name="close" size={11} /> killed here{one.kills > 1 ? `, ${one.kills} times` : ""}
              </span>
            ) : null}
          </li>
        ))}
      </ol>
    </>
  );
}

function Outcome({ execution, state, figures, workers }: { execution: string; state: string; figures: Figures; workers: readonly DemoWorker[] }) {
  const proof = useProof(execution);
  const kills = workers.filter((one) => one.killed).length;
  const paid = proof.data?.doubted_calls.length;
  return (
    <Section title="What came of it" about={kills === 0 ? "No worker was killed this time." : `${plural(kills, "worker")} killed; the run is ${state}, under the same id.`}>
      <table className="w-full text-sm" aria-label="What came of it">
        <tbody className="divide-y divide-line">
          <Figure name="Steps recorded" n={figures.recorded} />
          <Figure name="Recorded steps that were run again" n={figures.again} wanted={0} />
          <Figure name="Model replies that may have been paid twice" n={paid} wanted={0} />
          <Figure name="Calls that a killed worker took with it, made again by the next" n={figures.cut} />
        </tbody>
      </table>
      <div className="flex flex-col gap-1 border-t border-line px-4 py-3 text-sm">
        {proof.isError ? <Refusal error={proof.error} /> : null}
        <p className="text-quiet">Was anything done twice?</p>
        <p className="font-medium">{proof.data ? <Plain text={proof.data.verdict} /> : "Reading the log's proof …"}</p>
        <p className="text-quiet">Counted from the run's log, whose chain of hashes was followed. The same in a terminal:</p>
        <Command text={`perdure prove ${execution}`} />
      </div>
    </Section>
  );
}

function Figure({ name, n, wanted }: { name: string; n: number | undefined; wanted?: number }) {
  const good = wanted !== undefined && n === wanted;
  const bad = wanted !== undefined && n !== undefined && n !== wanted;
  return (
    <tr>
      <th scope="row" className="px-4 py-2 text-left font-normal text-quiet">
        {name}
      </th>
      <td className={`px-4 py-2 text-right text-lg font-semibold tabular-nums ${good ? "tone-good text-(--tone)" : bad ? "tone-bad text-(--tone)" : ""}`}>
        <span className="inline-flex items-center gap-1.5">
          {good ? <Icon name="check" size={14} /> : bad ? <Icon name="alert" size={14} /> : null}
          {n === undefined ? "…" : count(n)}
        </span>
      </td>
    </tr>
  );
}
