/** Saved views: a filter under a name, one press away. */

import { type FormEvent, useMemo, useState } from "react";
import { Button } from "../design/Button";
import { Icon } from "../design/icons";
import { useKept } from "../design/settings";
import { type Filter, read, write } from "./filter";
import { MOST_NAME, parsed, type View, withView, without } from "./views";

export function Views({ filter, change }: { filter: Filter; change: (next: Filter) => void }) {
  const [kept, keep] = useKept("views");
  const views = useMemo(() => parsed(kept), [kept]);
  const set = (next: readonly View[]): void => keep(next.length > 0 ? JSON.stringify(next) : "");
  const search = write(filter);
  const [naming, name] = useState(false);
  if (views.length === 0 && search === "") return null;
  return (
    <div role="group" aria-label="Saved views" className="-mx-1 flex items-center gap-1.5 overflow-x-auto px-1 py-0.5 md:flex-wrap">
      <span className="shrink-0 text-xs font-medium text-quiet">Views</span>
      {views.map((one) => (
        <span
          key={one.name}
          className={`inline-flex min-h-8 shrink-0 items-center rounded-md border bg-card pl-2.5 text-sm max-sm:min-h-10 ${one.search === search ? "border-accent ring-1 ring-accent" : "border-line"}`}
        >
          <button type="button" aria-pressed={one.search === search} onClick={() => change(read(one.search))} className="flex min-h-8 max-w-56 items-center truncate font-medium hover:text-accent">
            {one.name}
          </button>
          <button type="button" aria-label={`Delete the view ${one.name}`} title={`Delete the view ${one.name}`} onClick={() => set(without(views, one.name))} className="flex size-8 items-center justify-center text-quiet hover:text-ink">
            <Icon name="close" size={12} />
          </button>
        </span>
      ))}
      {naming ? (
        <Naming
          done={(text) => {
            if (text) set(withView(views, text, search));
            name(false);
          }}
        />
      ) : search !== "" && !views.some((one) => one.search === search) ? (
        <Button look="bare" icon="plus" onClick={() => name(true)}>
          Save this view
        </Button>
      ) : null}
    </div>
  );
}

function Naming({ done }: { done: (name: string) => void }) {
  const [text, type] = useState("");
  const send = (event: FormEvent): void => {
    event.preventDefault();
    done(text);
  };
  return (
    <form onSubmit={send} onKeyDown={(event) => event.key === "Escape" && done("")} className="flex shrink-0 items-center gap-1.5">
      <input autoFocus aria-label="Name of the view" placeholder="Name of the view" maxLength={MOST_NAME} className="field w-44 text-sm" value={text} onChange={(event) => type(event.target.value)} />
      <Button type="submit" disabled={!text.trim()}>
        Save
      </Button>
      <Button look="bare" onClick={() => done("")}>
        Back
      </Button>
    </form>
  );
}
