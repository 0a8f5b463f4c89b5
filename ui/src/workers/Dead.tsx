/** Calls that failed for good in executions that go on: what a retry can still help. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { collected } from "../api/many";
import { Button } from "../design/Button";
import { Many } from "../design/Many";
import { Section } from "../design/Section";
import { Empty, Failed, Loading, Refusal } from "../design/States";
import { Ago } from "../design/Time";
import { useMyName } from "../design/settings";
import { Id } from "../text/Copy";
import { Plain } from "../text/Text";
import { plural } from "../text/time";
import { type Dead as Call, deadPage, retry, useDead, useQueues } from "./data";

const MOST = 10_000;
const PAGE = 500;

export function Dead() {
  const [queue, choose] = useState("");
  const [all, retryAll] = useState(false);
  const found = useDead(queue);
  const queues = useQueues().data?.items ?? [];
  const calls = found.data?.pages.flatMap((page) => page.items) ?? [];
  const actions = (
    <div className="flex flex-wrap items-center gap-2">
      <label className="flex items-center gap-1.5 text-sm text-quiet">
        Queue
        <select className="field max-w-40 text-sm" value={queue} onChange={(event) => choose(event.target.value)}>
          <option value="">all</option>
          {[...new Set([...queues.map((one) => one.name), ...calls.map((one) => one.queue), ...(queue ? [queue] : [])])].sort().map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <Button icon="retry" disabled={calls.length === 0} onClick={() => retryAll(true)}>
        Retry all
      </Button>
    </div>
  );
  return (
    <Section title="Failed for good" about="Calls that used up their tries, in executions that go on." actions={actions}>
      {found.isPending ? (
        <Loading what="failed calls" />
      ) : found.data === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : calls.length === 0 ? (
        <Empty icon="check" title="No call has failed for good" />
      ) : (
        <ul className="divide-y divide-line">
          {calls.map((one) => (
            <One key={`${one.execution} ${one.address}`} one={one} />
          ))}
        </ul>
      )}
      {found.hasNextPage ? (
        <div className="border-t border-line p-3 text-center">
          <Button busy={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
            Show more
          </Button>
        </div>
      ) : null}
      {all ? <RetryAll queue={queue} close={() => retryAll(false)} /> : null}
    </Section>
  );
}

function One({ one }: { one: Call }) {
  const client = useQueryClient();
  const [name] = useMyName();
  const again = useMutation({ mutationFn: () => retry(one, name, ""), onSettled: () => void client.invalidateQueries({ queryKey: ["dead"] }) });
  return (
    <li className="flex flex-wrap items-start gap-x-4 gap-y-2 px-4 py-3 text-sm">
      <div className="min-w-0 flex-1 basis-72">
        <p>
          <span className="font-mono font-medium">
            <Plain text={one.tool} />
          </span>{" "}
          <span className="text-quiet">
            of <Plain text={one.agent} /> on <Plain text={one.queue} />, {plural(one.attempt, "attempt")},
          </span>{" "}
          <span className="text-quiet">
            <Ago atMs={one.failed_ms} />
          </span>
        </p>
        <p className="mt-0.5 line-clamp-3 text-bad">
          <Plain text={one.error.slice(0, 600) || one.code} />
        </p>
        <Link href={`/executions/${one.execution}/tasks`} className="text-accent underline underline-offset-2">
          <Id id={one.execution} short />
        </Link>
        <Refusal error={again.error} />
      </div>
      <Button icon="retry" busy={again.isPending} onClick={() => again.mutate()} aria-label={`Retry ${one.tool} of ${one.agent}`}>
        Retry
      </Button>
    </li>
  );
}

function RetryAll({ queue, close }: { queue: string; close: () => void }) {
  const client = useQueryClient();
  const [name] = useMyName();
  const of = queue ? ` of the queue ${queue}` : "";
  return (
    <Many<Call>
      open
      title="Try again"
      find={(signal, told) => collected((cursor) => deadPage(queue, cursor, signal, PAGE), { most: MOST, signal, told })}
      ask={(items) => ({
        title: items.length === 0 ? "Nothing to try again" : `Try ${plural(items.length, "call")} again?`,
        about: `All that failed for good${of}. Each goes back on its queue with all its tries anew, and with the same key. What the models were told stays told.`,
        verb: "Try again",
      })}
      field="Why (kept in each log)"
      act={(one, reason) => retry(one, name, reason)}
      past="put back"
      ended={() => void client.invalidateQueries({ queryKey: ["dead"] })}
      close={close}
    />
  );
}
