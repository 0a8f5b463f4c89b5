/** What a page shows while it has nothing to show: it loads, there is nothing, it went wrong. */

import type { ReactNode } from "react";
import { ApiError, said } from "../api/errors";
import { Button } from "./Button";
import { Icon, type IconName } from "./icons";

export function Loading({ what }: { what: string }) {
  return (
    <div role="status" className="flex items-center justify-center gap-2 p-10 text-quiet">
      <Icon name="spinner" className="turning" /> Loading {what} …
    </div>
  );
}

export function Empty({ icon, title, children }: { icon: IconName; title: string; children?: ReactNode }) {
  return (
    <div className="flex flex-col items-center gap-2 px-6 py-14 text-center">
      <span className="flex size-11 items-center justify-center rounded-full bg-sunken text-quiet">
        <Icon name={icon} size={22} />
      </span>
      <p className="text-lg font-semibold">{title}</p>
      {children ? <div className="max-w-md text-quiet">{children}</div> : null}
    </div>
  );
}

export function Failed({ error, again }: { error: unknown; again?: () => void }) {
  const away = error instanceof ApiError && error.away;
  return (
    <div role="alert" className="flex flex-col items-center gap-2 px-6 py-12 text-center">
      <span className="flex size-11 items-center justify-center rounded-full bg-sunken text-bad">
        <Icon name={away ? "cloud" : "alert"} size={22} />
      </span>
      <p className="text-lg font-semibold">{away ? "The server is away" : "That did not work"}</p>
      <p className="max-w-lg text-quiet">{said(error)}</p>
      {again ? (
        <Button icon="retry" onClick={again}>
          Try again
        </Button>
      ) : null}
    </div>
  );
}

/** One line under what could not be done. */
export function Refusal({ error }: { error: unknown }) {
  if (!error) return null;
  return (
    <p role="alert" className="toned tone-bad flex items-start gap-2 rounded-md px-3 py-2 text-sm">
      <Icon name="alert" className="mt-0.5" /> <span>{said(error)}</span>
    </p>
  );
}
