/** The server behind these pages, and who may come in: health, versions, keys, secrets, links that sign a browser in. */

import { type FormEvent, type ReactNode, useState } from "react";
import { Button } from "../design/Button";
import { Confirm } from "../design/Confirm";
import { Icon } from "../design/icons";
import { Section } from "../design/Section";
import { Failed, Loading, Refusal } from "../design/States";
import { type Column, Table } from "../design/Table";
import { Ago, Exact, Span } from "../design/Time";
import { useMyName } from "../design/settings";
import type { Schemas } from "../api/client";
import { CopyButton } from "../text/Copy";
import { Plain } from "../text/Text";
import { useInfo, useLink, useReady, useSecretChange, useSecrets } from "./data";
import { Keys } from "./Keys";

export function Settings() {
  return (
    <div className="flex flex-col gap-4">
      <h1 className="text-xl font-semibold">Settings</h1>
      <Server />
      <Links />
      <Keys />
      <Secrets />
    </div>
  );
}

const STORES: Record<string, string> = { sqlite: "SQLite, one file", postgres: "PostgreSQL" };

function Server() {
  const found = useInfo();
  const ready = useReady();
  const info = found.data;
  const well = ready.data !== undefined && !ready.error;
  return (
    <Section title="Server">
      {found.isPending ? (
        <Loading what="the server's facts" />
      ) : info === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : (
        <dl className="grid gap-x-8 gap-y-3 p-4 text-sm sm:grid-cols-2 lg:grid-cols-4">
          <Fact name="Health">
            <span className={`tone-${ready.isPending ? "off" : well ? "good" : "bad"} inline-flex items-center gap-1.5 font-medium text-(--tone)`}>
              <Icon name={ready.isPending ? "clock" : well ? "check" : "alert"} size={14} /> {ready.isPending ? "Asking" : well ? "Takes work" : "Does not take work"}
            </span>
          </Fact>
          <Fact name="Version">
            <span className="font-mono">{info.version}</span>
          </Fact>
          <Fact name="Running for">
            <Span fromMs={info.started_ms} toMs={null} /> <span className="text-quiet">(since <Exact atMs={info.started_ms} />)</span>
          </Fact>
          <Fact name="Store">
            {STORES[info.dialect] ?? info.dialect}
            <span className="block font-mono text-xs text-quiet">
              <Plain text={info.store} />
            </span>
          </Fact>
        </dl>
      )}
    </Section>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-xs text-quiet">{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Links() {
  const link = useLink();
  const address = link.data ? `${location.origin}${link.data.path}` : "";
  return (
    <Section
      title="Sign another browser in"
      about="A link signs one browser in, once, as whoever you are here. Whoever has it can do what you can: hand it to nobody whom you would not hand your key."
      actions={
        <Button icon="plus" busy={link.isPending} onClick={() => link.mutate()}>
          Make a link
        </Button>
      }
    >
      <Refusal error={link.error} />
      {link.data ? (
        <div className="flex flex-wrap items-center gap-2 px-4 py-3 text-sm">
          <code tabIndex={0} aria-label="The link" className="min-w-0 flex-1 basis-64 overflow-x-auto rounded-md bg-sunken p-2 font-mono whitespace-nowrap">
            {address}
          </code>
          <CopyButton text={address} label="Copy the link" />
          <span className="text-quiet">
            good until it is opened, at most <Ago atMs={link.data.expires_ms} />
          </span>
        </div>
      ) : null}
    </Section>
  );
}

function Secrets() {
  const found = useSecrets();
  const [going, drop] = useState("");
  const [by] = useMyName();
  const change = useSecretChange();
  const columns: Column<Schemas["SecretView"]>[] = [
    {
      head: "Name",
      cell: (one) => (
        <span className="font-mono font-medium">
          <Plain text={one.name} />
        </span>
      ),
    },
    { head: "Version", number: true, cell: (one) => one.version },
    {
      head: "Set",
      cell: (one) => (
        <span className="text-quiet">
          by <Plain text={one.set_by || "somebody"} /> <Ago atMs={one.set_ms} />
        </span>
      ),
    },
    {
      head: "Delete",
      bare: true,
      cell: (one) => (
        <Button look="danger" icon="close" onClick={() => drop(one.name)} aria-label={`Delete ${one.name}`}>
          Delete
        </Button>
      ),
    },
  ];
  return (
    <Section title="Secrets" about="Keys of models and services, sealed in the store. Nobody can read them back; setting one again makes its next version.">
      {found.isPending ? (
        <Loading what="secrets" />
      ) : found.data === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : found.data.items.length === 0 ? (
        <p className="px-4 py-3 text-sm text-quiet">None is kept.</p>
      ) : (
        <Table label="Secrets" columns={columns} items={found.data.items} keyOf={(one) => one.name} />
      )}
      <Keep />
      <Confirm
        open={going !== ""}
        title={`Delete ${going}?`}
        about="What needs it fails from the next request on, until it is set again."
        verb="Delete it"
        busy={change.isPending}
        error={change.error}
        close={() => drop("")}
        done={() => change.mutate({ name: going, value: null, by }, { onSuccess: () => drop("") })}
      />
    </Section>
  );
}

function Keep() {
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const [by] = useMyName();
  const change = useSecretChange();
  const send = (event: FormEvent): void => {
    event.preventDefault();
    if (!name.trim() || !value) return;
    change.mutate(
      { name: name.trim(), value, by },
      {
        onSuccess: () => {
          setName("");
          setValue("");
        },
      },
    );
  };
  return (
    <form onSubmit={send} aria-label="Set a secret" className="flex flex-col gap-2 border-t border-line p-3">
      <div className="flex flex-wrap items-center gap-2">
        <input aria-label="Name of the secret" placeholder="OPENAI_API_KEY" autoComplete="off" spellCheck={false} className="field w-56 font-mono text-sm" value={name} onChange={(event) => setName(event.target.value)} />
        <input aria-label="Its value" placeholder="its value" type="password" autoComplete="new-password" className="field min-w-0 flex-1 basis-48 text-sm" value={value} onChange={(event) => setValue(event.target.value)} />
        <Button type="submit" busy={change.isPending} disabled={!name.trim() || !value}>
          Set it
        </Button>
      </div>
      <Refusal error={change.error} />
    </form>
  );
}
