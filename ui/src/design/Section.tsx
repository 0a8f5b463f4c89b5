import { type ReactNode, useId } from "react";

/** A part of a page under a heading, in a card. */
export function Section({ title, about, actions, children }: { title: string; about?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="card overflow-hidden">
      <header className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2 border-b border-line px-4 py-3">
        <div className="min-w-0">
          <h2 id={id} className="font-semibold">
            {title}
          </h2>
          {about ? <p className="text-sm text-quiet">{about}</p> : null}
        </div>
        {actions}
      </header>
      {children}
    </section>
  );
}
