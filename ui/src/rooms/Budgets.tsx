/** What one's company's agents may spend on their models on a day: how it stands, and set. */

import { Dialog } from "@base-ui/react/dialog";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, taken } from "../api/client";
import { Button } from "../design/Button";
import { Confirm } from "../design/Confirm";
import { Section } from "../design/Section";
import { Failed, Loading, Refusal } from "../design/States";
import { type Column, Table } from "../design/Table";
import { Ago } from "../design/Time";
import { useMyName } from "../design/settings";
import { Window } from "../design/Window";
import { Plain } from "../text/Text";
import { cost, count } from "../text/time";
import { type Budget, type Caps, capsOf, fieldsOf, holdingIn, named, problem, type Scope, used } from "./budgets";
import { type Room, useBudgets, useMyCompany } from "./data";

const NO_CAPS: Caps = { usd: null, tokens: null, unpriced_usd: null };

export function Budgets({ room }: { room: Room }) {
  const found = useBudgets();
  const [setting, set] = useState<Budget | "new" | null>(null);
  const [going, remove] = useState<Budget | null>(null);
  const put = usePutting();
  const budgets = holdingIn(found.data?.items ?? [], room.id);
  const columns: Column<Budget>[] = [
    {
      head: "For",
      cell: (one) => (
        <span className="font-medium">
          <Plain text={named(one)} />
        </span>
      ),
    },
    { head: "Dollars today", cell: (one) => <Used cap={one.usd} spent={one.spent_usd} reserved={one.reserved_usd} shown={cost} what={`Dollars of ${named(one)}`} /> },
    { head: "Tokens today", cell: (one) => <Used cap={one.tokens} spent={one.spent_tokens} reserved={one.reserved_tokens} shown={count} what={`Tokens of ${named(one)}`} /> },
    { head: "A request of unknown price", cell: (one) => (one.usd === null ? <Nothing /> : one.unpriced_usd === null ? "is not made" : `counts ${cost(one.unpriced_usd)}`) },
    { head: "Day ends", cell: (one) => <Ago atMs={one.until_ms} /> },
    {
      head: "Change it",
      bare: true,
      cell: (one) => (
        <span className="inline-flex flex-wrap justify-end gap-2">
          <Button icon="pencil" onClick={() => set(one)} aria-label={`Change the budget of ${named(one)}`}>
            Change
          </Button>
          <Button look="danger" icon="close" onClick={() => remove(one)} aria-label={`Remove the budget of ${named(one)}`}>
            Remove
          </Button>
        </span>
      ),
    },
  ];
  return (
    <Section
      title="Budgets"
      about="What your company's agents may spend on models on a day in UTC. A wake whose next request does not fit waits."
      actions={
        <Button icon="plus" onClick={() => set("new")}>
          Set a budget
        </Button>
      }
    >
      {found.isPending ? (
        <Loading what="budgets" />
      ) : found.data === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : budgets.length === 0 ? (
        <p className="px-4 py-3 text-sm text-quiet">There is no cap for agents in this room.</p>
      ) : (
        <Table label="Budgets" columns={columns} items={budgets} keyOf={named} />
      )}
      <Window open={setting !== null} close={() => set(null)}>
        <Form room={room} budgets={budgets} one={setting === "new" ? null : setting} close={() => set(null)} />
      </Window>
      <Confirm
        open={going !== null}
        title={going ? `Remove the budget of ${named(going)}?` : ""}
        about="What it held back goes on, as far as no other budget holds it."
        verb="Remove it"
        busy={put.isPending}
        error={put.error}
        close={() => remove(null)}
        done={() => going && put.mutate({ room: going.room, agent: going.agent, ...NO_CAPS }, { onSuccess: () => remove(null) })}
      />
    </Section>
  );
}

function Nothing() {
  return <span className="text-faint">–</span>;
}

type UsedProps = { cap: number | null; spent: number; reserved: number; shown: (value: number) => string; what: string };

/** What of a cap is spent, seen before it is read. */
function Used({ cap, spent, reserved, shown, what }: UsedProps) {
  if (cap === null) return <Nothing />;
  return (
    <div className="flex flex-col gap-1 tabular-nums">
      <span>
        {shown(spent)} of {shown(cap)}
        {reserved > 0 ? <span className="text-quiet">, {shown(reserved)} under way</span> : null}
      </span>
      <progress className="meter h-1.5 w-28" max={1} value={used(spent, reserved, cap)} aria-label={what} />
    </div>
  );
}

function usePutting() {
  const client = useQueryClient();
  const [by] = useMyName();
  return useMutation({
    mutationFn: (budget: Scope & Caps) => taken(api.PUT("/v1/room-budgets", { body: { ...budget, by } })),
    onSettled: () => void client.invalidateQueries({ queryKey: ["budgets"] }),
  });
}

function Form({ room, budgets, one, close }: { room: Room; budgets: readonly Budget[]; one: Budget | null; close: () => void }) {
  const own = useMyCompany();
  const put = usePutting();
  const [scope, choose] = useState<Scope>({ room: one ? one.room : room.id, agent: one?.agent ?? "" });
  const before = budgets.find((each) => each.room === scope.room && each.agent === scope.agent) ?? null;
  const [fields, type] = useState(() => fieldsOf(one));
  const wrong = problem(fields);
  const caps = capsOf(fields);
  const agents = (room.members ?? []).filter((each) => each.company === own && each.name !== "" && each.state === "joined").map((each) => each.name);
  const send = (event: FormEvent): void => {
    event.preventDefault();
    put.mutate({ ...scope, ...caps }, { onSuccess: close });
  };
  const field = (name: keyof typeof fields, label: string) => (
    <label className="flex flex-col gap-1 text-sm font-medium">
      {label}
      <input inputMode="decimal" autoComplete="off" className="field tabular-nums" value={fields[name]} onChange={(event) => type({ ...fields, [name]: event.target.value })} />
    </label>
  );
  const select = (name: keyof Scope, label: string, options: readonly (readonly [string, string])[]) => (
    <label className="flex flex-col gap-1 text-sm font-medium">
      {label}
      <select className="field" value={scope[name]} disabled={one !== null} onChange={(event) => choose({ ...scope, [name]: event.target.value })}>
        {options.map(([value, word]) => (
          <option key={value} value={value}>
            {word}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <form onSubmit={send} className="flex flex-col gap-4">
      <Dialog.Title className="text-lg font-semibold">{one ? "Change a budget" : "Set a budget"}</Dialog.Title>
      <Dialog.Description className="text-quiet">The most that a request may cost is reserved before it is made, so a cap is never passed. What is spent counts from the first cap on.</Dialog.Description>
      <div className="grid gap-x-6 gap-y-3 sm:grid-cols-2">
        {select("agent", "Of", [["", "all agents of your company"], ...[...new Set([...agents, ...(one?.agent ? [one.agent] : [])])].map((name) => [name, name] as const)])}
        {select("room", "In", [[room.id, "this room"], ["", "all rooms"]])}
        {field("usd", "Dollars a day")}
        {field("tokens", "Tokens a day")}
        {field("unpriced_usd", "A request of unknown price counts for, in dollars")}
      </div>
      {before && !one ? <p className="text-sm text-quiet">It takes the place of the one that {named(scope)} has.</p> : null}
      <p role="status" className="min-h-5 text-sm text-bad">
        {wrong}
      </p>
      <Refusal error={put.error} />
      <div className="flex justify-end gap-2">
        <Button onClick={close}>Back</Button>
        <Button look="main" type="submit" busy={put.isPending} disabled={wrong !== "" || (caps.usd === null && caps.tokens === null)}>
          Set it
        </Button>
      </div>
    </form>
  );
}
