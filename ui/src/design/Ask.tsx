/** A question before something is done: what it does, a field for a reason or a text, and a way out. */

import { Dialog } from "@base-ui/react/dialog";
import { type FormEvent, type ReactNode, useEffect, useId, useState } from "react";
import { Button } from "./Button";
import { Refusal } from "./States";
import { Window } from "./Window";

type Props = {
  open: boolean;
  title: string;
  about: ReactNode;
  field: string;
  verb: string;
  /** What the field holds at first. */
  given?: string;
  mono?: boolean;
  danger?: boolean;
  /** Nothing is done without a text. */
  needed?: boolean;
  busy: boolean;
  error: unknown;
  /** Say what is wrong with a text, or nothing. */
  problem?: (text: string) => string;
  close: () => void;
  done: (text: string) => void;
};

export function Ask(props: Props) {
  return (
    <Window open={props.open} close={props.close}>
      <Form {...props} />
    </Window>
  );
}

function Form({ title, about, field, verb, given = "", mono = false, danger = false, needed = false, busy, error, problem, close, done }: Props) {
  const [text, setText] = useState(given);
  const id = useId();
  useEffect(() => setText(given), [given]);
  const wrong = problem?.(text) ?? "";
  const send = (event: FormEvent): void => {
    event.preventDefault();
    done(text);
  };
  return (
    <form onSubmit={send} className="flex flex-col gap-3">
      <Dialog.Title className="text-lg font-semibold">{title}</Dialog.Title>
      <Dialog.Description render={<div />} className="text-quiet">
        {about}
      </Dialog.Description>
      <label htmlFor={id} className="text-sm font-medium">
        {field}
      </label>
      <textarea
        id={id}
        rows={mono ? 12 : 3}
        spellCheck={!mono}
        className={`field resize-y ${mono ? "font-mono text-sm" : ""}`}
        value={text}
        aria-invalid={wrong !== ""}
        aria-describedby={`${id}-wrong`}
        onChange={(event) => setText(event.target.value)}
      />
      <p id={`${id}-wrong`} className="min-h-5 text-sm text-bad">
        {wrong}
      </p>
      <Refusal error={error} />
      <div className="flex justify-end gap-2">
        <Button onClick={close}>Back</Button>
        <Button look={danger ? "danger" : "main"} type="submit" busy={busy} disabled={wrong !== "" || (needed && !text.trim())}>
          {verb}
        </Button>
      </div>
    </form>
  );
}
