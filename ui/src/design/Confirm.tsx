/** A question before something is done for which nobody need give a reason. */

import { AlertDialog } from "@base-ui/react/alert-dialog";
import type { ReactNode } from "react";
import { Button } from "./Button";
import { Refusal } from "./States";

type Props = { open: boolean; title: string; about: ReactNode; verb: string; busy: boolean; error: unknown; close: () => void; done: () => void };

export function Confirm({ open, title, about, verb, busy, error, close, done }: Props) {
  return (
    <AlertDialog.Root open={open} onOpenChange={(now) => !now && close()}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className="fixed inset-0 z-40 bg-black/45" />
        <AlertDialog.Popup className="card fixed top-1/2 left-1/2 z-50 flex w-[min(30rem,94vw)] -translate-x-1/2 -translate-y-1/2 flex-col gap-3 p-5 shadow-(--shadow-float)">
          <AlertDialog.Title className="text-lg font-semibold">{title}</AlertDialog.Title>
          <AlertDialog.Description render={<div />} className="text-quiet">
            {about}
          </AlertDialog.Description>
          <Refusal error={error} />
          <div className="flex justify-end gap-2">
            <Button onClick={close}>Back</Button>
            <Button look="danger" busy={busy} onClick={done}>
              {verb}
            </Button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
