/** How much of a queue may be under way: shown as it stands and as it would, and set for all servers at once. */

import { Dialog } from "@base-ui/react/dialog";
import { type FormEvent, useState } from "react";
import { Button } from "../design/Button";
import { Refusal } from "../design/States";
import { useMyName } from "../design/settings";
import { Window } from "../design/Window";
import { Plain } from "../text/Text";
import { useLimiting } from "./data";
import { limits, type Queue } from "./lanes";
import { fieldsOf, limitsOf, problem, same } from "./limits";

export function LimitsButton({ queue }: { queue: Queue }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button icon="pencil" onClick={() => setOpen(true)} aria-label={`Limits of ${queue.name}`}>
        Limits
      </Button>
      <Window open={open} close={() => setOpen(false)}>
        <Form queue={queue} close={() => setOpen(false)} />
      </Window>
    </>
  );
}

const NONE = "no limits";

function Form({ queue, close }: { queue: Queue; close: () => void }) {
  const [by] = useMyName();
  const [fields, setFields] = useState(() => fieldsOf(queue));
  const limiting = useLimiting(by);
  const wrong = problem(fields);
  const wanted = limitsOf(fields);
  const send = (event: FormEvent): void => {
    event.preventDefault();
    if (!wrong) limiting.mutate({ queue: queue.name, limits: wanted }, { onSuccess: close });
  };
  const field = (name: keyof typeof fields, label: string, after: string, wide = "w-28") => (
    <label className="flex flex-col gap-1 text-sm font-medium">
      {label}
      <span className="flex items-center gap-2 font-normal text-quiet">
        <input aria-label={label} inputMode="decimal" autoComplete="off" className={`field ${wide} text-ink tabular-nums`} value={fields[name]} onChange={(event) => setFields({ ...fields, [name]: event.target.value })} /> {after}
      </span>
    </label>
  );
  return (
    <form onSubmit={send} className="flex flex-col gap-4">
      <Dialog.Title className="text-lg font-semibold">
        Limits of <Plain text={queue.name} />
      </Dialog.Title>
      <Dialog.Description className="text-quiet">They hold over all servers, from the next task that is given out. What workers have they keep. An empty field is no limit.</Dialog.Description>
      <div className="grid gap-x-6 gap-y-3 sm:grid-cols-2">
        {field("concurrency", "At once", "tasks")}
        {field("per_key", "Of each key, at once", "tasks")}
        {field("rate", "Given out", "tasks")}
        {field("per_seconds", "within", "seconds")}
      </div>
      <p role="status" className="min-h-5 text-sm text-bad">
        {wrong}
      </p>
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 rounded-md bg-sunken p-3 text-sm">
        <dt className="text-quiet">Now</dt>
        <dd>{limits(queue) || NONE}</dd>
        <dt className="text-quiet">Then</dt>
        <dd className="font-medium">{wrong ? "–" : limits(wanted) || NONE}</dd>
      </dl>
      <Refusal error={limiting.error} />
      <div className="flex justify-end gap-2">
        <Button onClick={close}>Back</Button>
        <Button look="main" type="submit" busy={limiting.isPending} disabled={wrong !== "" || same(queue, wanted)}>
          Set these limits
        </Button>
      </div>
    </form>
  );
}
