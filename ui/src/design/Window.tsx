/** A dialog over the page, with a way out by Escape and by the page behind it. What is in it gives it its title. */

import { Dialog } from "@base-ui/react/dialog";
import type { ReactNode } from "react";

export function Window({ open, close, children }: { open: boolean; close: () => void; children: ReactNode }) {
  return (
    <Dialog.Root open={open} onOpenChange={(still) => !still && close()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-black/45" />
        <Dialog.Popup className="card fixed top-1/2 left-1/2 z-50 max-h-[92dvh] w-[min(34rem,94vw)] -translate-x-1/2 -translate-y-1/2 overflow-auto p-5 shadow-(--shadow-float)">
          {children}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
