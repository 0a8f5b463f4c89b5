/** What a store shows in which nothing has run: the two commands that have something run in it, and how far one is. */

import type { ReactNode } from "react";
import { Icon } from "../design/icons";
import { CopyButton } from "../text/Copy";
import { plural } from "../text/time";
import { useWorkers } from "../workers/data";

export function FirstRun() {
  const workers = useWorkers().data?.items.length ?? 0;
  return (
    <div className="flex flex-col items-center gap-5 px-6 py-12">
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
      <div className="w-full max-w-xl border-t border-line pt-4">
        <p className="text-sm text-quiet">Or see an agent outlive the death of its processes, in a terminal, without a key:</p>
        <Command text="perdure demo" />
      </div>
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

function Command({ text }: { text: string }) {
  return (
    <div className="mt-2 flex items-center gap-1 rounded-md bg-sunken pr-1 pl-3">
      <code className="min-w-0 flex-1 py-2 font-mono text-sm">{text}</code>
      <CopyButton text={text} label={`Copy ${text}`} />
    </div>
  );
}
