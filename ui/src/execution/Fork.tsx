/** Begin another execution from a place in this one, with something changed: an editor, and the buttons that open it. */

import { Dialog } from "@base-ui/react/dialog";
import { useMutation } from "@tanstack/react-query";
import { createContext, type FormEvent, type ReactNode, useContext, useId, useState } from "react";
import { useLocation } from "wouter";
import { api, type Execution, type Schemas, taken } from "../api/client";
import { Button } from "../design/Button";
import { Refusal } from "../design/States";
import { useMyName } from "../design/settings";
import { type Edit, editsOf, type Given, given, type Place, problemOf } from "./edits";

const Opener = createContext<((place: Place) => void) | null>(null);

/** Whatever stands in it may offer to fork this execution. */
export function Forking({ view, children }: { view: Execution; children: ReactNode }) {
  const [place, open] = useState<Place | null>(null);
  return (
    <Opener value={open}>
      {children}
      <Dialog.Root open={place !== null} onOpenChange={(wanted) => !wanted && open(null)}>
        <Dialog.Portal>
          <Dialog.Backdrop className="fixed inset-0 z-40 bg-black/45" />
          <Dialog.Popup className="card fixed top-1/2 left-1/2 z-50 max-h-[94dvh] w-[min(44rem,94vw)] -translate-x-1/2 -translate-y-1/2 overflow-auto p-5 shadow-(--shadow-float)">
            {place ? <Editor view={view} place={place} close={() => open(null)} /> : null}
          </Dialog.Popup>
        </Dialog.Portal>
      </Dialog.Root>
    </Opener>
  );
}

/** Opens the editor at a place; nothing where nobody can fork. */
export function ForkButton({ place, look = "bare", children = "Fork from here" }: { place: Place; look?: "bare" | "plain"; children?: ReactNode }) {
  const open = useContext(Opener);
  if (!open) return null;
  return (
    <Button look={look} icon="fork" onClick={() => open(place)}>
      {children}
    </Button>
  );
}

/** One key for one opened editor: however often it is sent, it makes one execution. */
function newKey(): string {
  return `ui-${crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`}`;
}

function Editor({ view, place, close }: { view: Execution; place: Place; close: () => void }) {
  const [, go] = useLocation();
  const [name] = useMyName();
  const [key, renew] = useState(newKey);
  const before = given(view, place);
  const [edit, setEdit] = useState<Edit>(before);
  const fork = useMutation({
    mutationFn: (body: Schemas["ForkBody"]) => taken(api.POST("/v1/executions/{execution}/fork", { params: { path: { execution: view.id } }, body })),
    onSuccess: (made) => {
      close();
      go(`/executions/${made.id}`);
    },
    onError: () => renew(newKey()),
  });
  const problem = problemOf(edit, before);
  const send = (event: FormEvent): void => {
    event.preventDefault();
    fork.mutate({ ...editsOf(edit, before), by: name, idempotency_key: key });
  };
  const change = (more: Partial<Edit>): void => setEdit({ ...edit, ...more });
  return (
    <form onSubmit={send} className="flex flex-col gap-3">
      <Dialog.Title className="text-lg font-semibold">{place.title}</Dialog.Title>
      <Dialog.Description className="text-quiet">
        The fork has what is recorded up to this event; none of it is done or paid again. Where it would act on the world in a way that this execution did not, it pauses and asks you first.
      </Dialog.Description>
      <label className="flex flex-wrap items-center gap-2 text-sm font-medium">
        Last event that it takes over
        <input type="number" min={1} max={view.last_seq} required className="field w-28 tabular-nums" value={edit.at} onChange={(event) => change({ at: event.target.value })} />
      </label>
      <Fields before={before} edit={edit} change={change} />
      <p role="status" className="min-h-5 text-sm text-bad">
        {problem}
      </p>
      <Refusal error={fork.error} />
      <div className="flex justify-end gap-2">
        <Button onClick={close}>Back</Button>
        <Button look="main" type="submit" icon="fork" busy={fork.isPending} disabled={problem !== ""}>
          Fork
        </Button>
      </div>
    </form>
  );
}

function Fields({ before, edit, change }: { before: Given; edit: Edit; change: (more: Partial<Edit>) => void }) {
  const result = before.of;
  const rest = (
    <>
      <Area label={before.durable ? "Input, as JSON" : "Prompt"} mono={before.durable} value={edit.input} change={(input) => change({ input })} />
      {!before.durable && edit.input !== before.input && Number(edit.at) > 1 ? (
        <p className="text-sm text-quiet">What is recorded up to this event stays as it is. To have the model answer the new prompt from the start, take over event 1 alone.</p>
      ) : null}
      <label className="flex flex-col gap-1 text-sm font-medium">
        {before.durable ? "Build that goes on with it" : "Model"}
        <input className="field font-mono text-sm" spellCheck={false} value={edit.model} placeholder={before.durable ? "as before" : ""} onChange={(event) => change({ model: event.target.value })} />
      </label>
    </>
  );
  if (!result) return rest;
  return (
    <>
      {result.left ? <p className="text-sm text-quiet">{result.left}</p> : null}
      <Area label={result.label} mono={result.json} rows={result.json ? 10 : 5} value={edit.result} change={(text) => change({ result: text })} />
      <details>
        <summary className="text-sm font-medium">{before.durable ? "Input and build" : "Prompt and model"}</summary>
        <div className="mt-2 flex flex-col gap-3">{rest}</div>
      </details>
    </>
  );
}

function Area({ label, value, change, mono, rows = 4 }: { label: string; value: string; change: (text: string) => void; mono: boolean; rows?: number }) {
  const id = useId();
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={id} className="text-sm font-medium">
        {label}
      </label>
      <textarea id={id} rows={rows} spellCheck={!mono} className={`field resize-y ${mono ? "font-mono text-sm" : ""}`} value={value} onChange={(event) => change(event.target.value)} />
    </div>
  );
}
