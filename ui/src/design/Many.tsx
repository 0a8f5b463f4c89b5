/** One thing for many: they are found and counted, somebody says yes, each is asked for, and it says what became of them. */

import { Dialog } from "@base-ui/react/dialog";
import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { each, type Outcome, summed } from "../api/many";
import { count } from "../text/time";
import { Button } from "./Button";
import { Icon } from "./icons";
import { Refusal } from "./States";
import { Window } from "./Window";

type Props<T> = {
  open: boolean;
  /** Read out while they are looked for. */
  title: string;
  find: (signal: AbortSignal, told: (n: number) => void) => Promise<readonly T[]>;
  ask: (items: readonly T[]) => { title: string; about: ReactNode; verb: string };
  /** What the field for a reason is called; without one nobody is asked for any. */
  field?: string;
  danger?: boolean;
  act: (item: T, reason: string, signal: AbortSignal) => Promise<unknown>;
  /** `cancelled`: what became of each that was done. */
  past: string;
  ended?: (outcome: Outcome) => void;
  close: () => void;
};

export function Many<T>(props: Props<T>) {
  return (
    <Window open={props.open} close={props.close}>
      <Steps {...props} />
    </Window>
  );
}

type Stage<T> =
  | { readonly kind: "finding"; readonly n: number }
  | { readonly kind: "asking"; readonly items: readonly T[] }
  | { readonly kind: "doing"; readonly items: readonly T[]; readonly so: Outcome }
  | { readonly kind: "ended"; readonly of: number; readonly outcome: Outcome; readonly stopped: boolean }
  | { readonly kind: "broken"; readonly error: unknown; readonly so: Outcome | null };

const NOTHING: Outcome = { done: 0, refused: {} };

function Steps<T>({ title, find, ask, field, danger = false, act, past, ended, close }: Props<T>) {
  const [stage, go] = useState<Stage<T>>({ kind: "finding", n: 0 });
  const control = useRef<AbortController | null>(null);
  const first = useRef(find);

  useEffect(() => {
    const finding = new AbortController();
    first
      .current(finding.signal, (n) => go({ kind: "finding", n }))
      .then((items) => !finding.signal.aborted && go({ kind: "asking", items }))
      .catch((error: unknown) => !finding.signal.aborted && go({ kind: "broken", error, so: null }));
    return () => {
      finding.abort();
      control.current?.abort();
    };
  }, []);

  const begin = async (items: readonly T[], reason: string): Promise<void> => {
    const doing = new AbortController();
    control.current = doing;
    let so = NOTHING;
    go({ kind: "doing", items, so });
    try {
      const outcome = await each(items, (item) => act(item, reason, doing.signal), {
        signal: doing.signal,
        told: (now) => {
          so = now;
          go({ kind: "doing", items, so });
        },
      });
      go({ kind: "ended", of: items.length, outcome, stopped: doing.signal.aborted });
      ended?.(outcome);
    } catch (error) {
      go({ kind: "broken", error, so });
      ended?.(so);
    }
  };

  switch (stage.kind) {
    case "finding":
      return (
        <Frame title={title} buttons={<Button onClick={close}>Back</Button>}>
          <p role="status" className="flex items-center gap-2 text-quiet">
            <Icon name="spinner" className="turning" /> Looking for them: {count(stage.n)} so far.
          </p>
        </Frame>
      );
    case "asking":
      return <Asking {...ask(stage.items)} field={field} danger={danger} none={stage.items.length === 0} close={close} yes={(reason) => void begin(stage.items, reason)} />;
    case "doing":
      return (
        <Frame title={title} buttons={<Button onClick={() => control.current?.abort()}>Stop here</Button>}>
          <Progress done={handled(stage.so)} of={stage.items.length} />
        </Frame>
      );
    case "ended":
      return (
        <Frame title={stage.stopped ? "Stopped" : "Done"} buttons={<Button onClick={close}>Close</Button>}>
          <p role="status">
            {summed(stage.outcome, past)}
            {stage.stopped ? ` ${count(stage.of - handled(stage.outcome))} were left as they are.` : ""}
          </p>
        </Frame>
      );
    case "broken":
      return (
        <Frame title="It broke off" buttons={<Button onClick={close}>Close</Button>}>
          <Refusal error={stage.error} />
          {stage.so ? <p className="text-quiet">{summed(stage.so, past)} The same once more goes on with the rest.</p> : null}
        </Frame>
      );
  }
}

function handled({ done, refused }: Outcome): number {
  return Object.values(refused).reduce((sum, n) => sum + n, done);
}

function Frame({ title, buttons, children }: { title: string; buttons: ReactNode; children: ReactNode }) {
  return (
    <div className="flex flex-col gap-3">
      <Dialog.Title className="text-lg font-semibold">{title}</Dialog.Title>
      {children}
      <div className="flex justify-end gap-2">{buttons}</div>
    </div>
  );
}

function Progress({ done, of }: { done: number; of: number }) {
  return (
    <div className="flex flex-col gap-1.5">
      <progress aria-label="How far it is" value={done} max={of} className="meter h-2 w-full" />
      <p className="text-sm text-quiet tabular-nums">
        {count(done)} of {count(of)}
      </p>
    </div>
  );
}

type AskingProps = { title: string; about: ReactNode; verb: string; field: string | undefined; danger: boolean; none: boolean; close: () => void; yes: (reason: string) => void };

function Asking({ title, about, verb, field, danger, none, close, yes }: AskingProps) {
  const [reason, say] = useState("");
  const id = useId();
  const send = (event: FormEvent): void => {
    event.preventDefault();
    yes(reason);
  };
  return (
    <form onSubmit={send} className="flex flex-col gap-3">
      <Dialog.Title className="text-lg font-semibold">{title}</Dialog.Title>
      <Dialog.Description render={<div />} className="text-quiet">
        {about}
      </Dialog.Description>
      {field && !none ? (
        <>
          <label htmlFor={id} className="text-sm font-medium">
            {field}
          </label>
          <textarea id={id} rows={2} className="field resize-y" value={reason} onChange={(event) => say(event.target.value)} />
        </>
      ) : null}
      <div className="flex justify-end gap-2">
        <Button onClick={close}>Back</Button>
        {none ? null : (
          <Button look={danger ? "danger" : "main"} type="submit">
            {verb}
          </Button>
        )}
      </div>
    </form>
  );
}
