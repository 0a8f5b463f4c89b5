/** What a store shows in which nothing has run: the two commands that have something run in it, and a run to kill. */

import type { ReactNode } from "react";
import { useLocation } from "wouter";
import { useBegin, useDemo } from "../demo/data";
import { Button } from "../design/Button";
import { Icon } from "../design/icons";
import { Refusal } from "../design/States";
import { Command } from "../text/Copy";
import { plural } from "../text/time";
import { useWorkers } from "../workers/data";

export function FirstRun() {
  const workers = useWorkers().data?.items.length ?? 0;
  const demo = useDemo();
  return (
    <div className="flex flex-col items-center gap-5 px-6 py-10 max-sm:px-3 max-sm:py-6">
      <div className="text-center">
        <p className="text-lg font-semibold">Nothing has run yet</p>
        <p className="text-quiet">Two commands, and what they begin appears here by itself.</p>
      </div>
      <ol className="flex w-full max-w-xl flex-col gap-3">
        <Step number="1" title="Serve an agent's tools, in one terminal" command="perdure worker my_agents:desk" done={workers > 0}>
          {workers > 0 ? `${plural(workers, "worker")} connected` : "No worker is connected yet."}
        </Step>
        <Step number="2" title="Begin it, in another" command="python my_agents.py" done={false}>
          It calls <code className="font-mono">runtime.start(desk, "…")</code>, as in the guide.
        </Step>
      </ol>
      {demo.data?.available ? <Offer /> : <Terminal />}
    </div>
  );
}

/** Nothing to write first: a run that this server begins, with a process to kill. */
function Offer() {
  const [, go] = useLocation();
  const begin = useBegin(() => go("/demo"));
  return (
    <section aria-labelledby="crash" className="card flex w-full max-w-xl flex-wrap items-center gap-x-4 gap-y-3 p-4">
      <div className="min-w-0 flex-1 basis-64">
        <h2 id="crash" className="font-medium">
          Or see one outlive a crash first
        </h2>
        <p className="text-sm text-quiet">The server begins a run with a scripted model, which needs no key, and you kill its worker.</p>
      </div>
      <Button look="main" icon="play" busy={begin.isPending} onClick={() => begin.mutate()}>
        Start the crash demo
      </Button>
      <Refusal error={begin.error} />
    </section>
  );
}

function Terminal() {
  return (
    <div className="w-full max-w-xl border-t border-line pt-4">
      <p className="text-sm text-quiet">Or see an agent outlive the death of its processes, in a terminal, without a key:</p>
      <Command text="perdure demo" />
    </div>
  );
}

function Step({ number, title, command, done, children }: { number: string; title: string; command: string; done: boolean; children: ReactNode }) {
  return (
    <li className="card flex gap-3 p-4">
      <span aria-hidden="true" className={`flex size-7 shrink-0 items-center justify-center rounded-full text-sm font-semibold ${done ? "toned tone-good" : "bg-sunken text-quiet"}`}>
        {done ? <Icon name="check" size={14} /> : number}
      </span>
      <div className="min-w-0 flex-1">
        <p className="font-medium">{title}</p>
        <Command text={command} />
        <p className="mt-1 text-sm text-quiet" role="status">
          {children}
        </p>
      </div>
    </li>
  );
}
