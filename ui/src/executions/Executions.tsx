/** All executions, newest first: what runs, what waits, what went wrong. */

import { useEffect, useMemo, useState } from "react";
import { useLocation, useSearch } from "wouter";
import { Button } from "../design/Button";
import { Empty, Failed, Loading } from "../design/States";
import { plural } from "../text/time";
import { Bulk } from "./Bulk";
import { useExecutions } from "./data";
import { ALL, type Filter, read, searched, write } from "./filter";
import { Filters } from "./Filters";
import { FirstRun } from "./FirstRun";
import { Rows } from "./Rows";
import { Spark } from "./Spark";
import { Views } from "./Views";

/** Pages of a search that follow each other by themselves: a search that finds little must not read the whole store. */
const BY_ITSELF = 10;
const ENOUGH = 50;

export function Executions() {
  const search = useSearch();
  const [, go] = useLocation();
  const filter = useMemo(() => read(search), [search]);
  const list = useExecutions(filter);
  const [ticked, tick] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => tick(new Set()), [filter]);
  const chosen = useMemo(() => list.items.filter((one) => ticked.has(one.id)), [list.items, ticked]);
  const change = (next: Filter): void => go(`/executions${write(next)}`);
  const choose = (ids: readonly string[], yes: boolean): void =>
    tick((before) => {
      const after = new Set(before);
      for (const id of ids) {
        if (yes) after.add(id);
        else after.delete(id);
      }
      return after;
    });

  const pages = list.data?.pages ?? [];
  const further = list.hasNextPage && !list.isFetchingNextPage ? () => void list.fetchNextPage() : null;
  const more = filter.text && pages.length % BY_ITSELF === 0 ? null : further;
  const few = list.items.length < ENOUGH;
  useEffect(() => {
    if (filter.text && few && more) more();
  }, [filter.text, few, more]);
  const first = !list.isPending && !list.isError && list.items.length === 0 && write(filter) === "";
  const looking = list.isPending || (list.items.length === 0 && (list.isFetchingNextPage || more !== null));

  return (
    <div className="flex min-h-0 flex-1 flex-col gap-3">
      <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-1">
        <h1 className="text-xl font-semibold">Executions</h1>
        <Spark since={filter.since ?? "24h"} />
      </div>
      <Filters filter={filter} change={change} />
      <Views filter={filter} change={change} />
      <section aria-label="List of executions" className={`card flex flex-1 flex-col overflow-hidden ${first ? "shrink-0 basis-auto" : "min-h-0 max-md:min-h-[26rem]"}`}>
        {looking ? (
          <Loading what="executions" />
        ) : list.isError && list.items.length === 0 ? (
          <Failed error={list.error} again={() => void list.refetch()} />
        ) : list.items.length === 0 ? (
          <Nothing filter={filter} so={further !== null} all={() => change(ALL)} />
        ) : (
          <>
            <div className="flex flex-wrap items-center justify-between gap-2 border-b border-line px-4 py-2">
              <p className="text-sm text-quiet" aria-live="polite">
                {chosen.length > 0 ? `${plural(chosen.length, "execution")} chosen` : `${plural(list.items.length, "execution")}${list.hasNextPage ? " so far" : ""}`}
                {chosen.length > 0 ? (
                  <button type="button" className="ml-3 min-h-6 text-accent underline underline-offset-2" onClick={() => tick(new Set())}>
                    Choose none
                  </button>
                ) : null}
              </p>
              <Bulk filter={filter} chosen={chosen} />
            </div>
            <div className="min-h-0 flex-1">
              <Rows items={list.items} more={more} chosen={ticked} choose={choose} />
            </div>
          </>
        )}
        {filter.text && !looking && !list.isError ? (
          <div className="flex flex-wrap items-center gap-3 border-t border-line px-4 py-2 text-sm text-quiet">
            <span role="status">{/^exe_\w*$/i.test(filter.text) ? "Looked for ids that begin with it, and for nothing else." : searched(pages, list.hasNextPage)}</span>
            {further && !more ? <Button onClick={further}>Look further back</Button> : null}
          </div>
        ) : null}
      </section>
    </div>
  );
}

function Nothing({ filter, so, all }: { filter: Filter; so: boolean; all: () => void }) {
  if (write(filter) === "") return <FirstRun />;
  return (
    <Empty icon="filter" title={so ? "None so far" : "None is like that"}>
      <p>
        No execution {so ? "that was looked at " : ""}passes these filters.{" "}
        <button type="button" className="font-medium text-accent underline underline-offset-2" onClick={all}>
          Show all
        </button>
      </p>
    </Empty>
  );
}
