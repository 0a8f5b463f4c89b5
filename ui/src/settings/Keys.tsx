/** API keys: whose they are, never what they are. Whoever runs the server makes and revokes them; others see their own. */

import { type FormEvent, useId, useState } from "react";
import { ApiError } from "../api/errors";
import type { Schemas } from "../api/client";
import { Button } from "../design/Button";
import { Confirm } from "../design/Confirm";
import { Icon } from "../design/icons";
import { Section } from "../design/Section";
import { Empty, Failed, Loading, Refusal } from "../design/States";
import { type Column, Table } from "../design/Table";
import { Ago } from "../design/Time";
import { CopyButton } from "../text/Copy";
import { Plain } from "../text/Text";
import { plural } from "../text/time";
import { useCompanies, useKeyMaking, useKeyRevoking, useKeys, useSession } from "./data";
import { type KeyRow, keysOf, role, runsTheServer } from "./keys";

export function Keys() {
  const found = useCompanies();
  const sessions = useKeys().data?.sessions;
  const others = found.error instanceof ApiError && found.error.code === "admin_only";
  if (others) return <Own />;
  const browsers = sessions === undefined ? "" : ` ${plural(sessions, "browser")} of your company signed in.`;
  return (
    <Section title="Keys" about={`Those of all companies on this server. What they are stands nowhere: only their fingerprints are kept.${browsers}`}>
      {found.isPending ? (
        <Loading what="keys" />
      ) : found.data === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : (
        <All companies={found.data.items} />
      )}
    </Section>
  );
}

function All({ companies }: { companies: readonly Schemas["CompanyView"][] }) {
  const { good, revoked } = keysOf(companies);
  const [going, revoke] = useState<KeyRow | null>(null);
  const columns: Column<KeyRow>[] = [
    ...COLUMNS,
    {
      head: "Revoke",
      bare: true,
      cell: (one) => (
        <Button look="danger" icon="ban" onClick={() => revoke(one)} aria-label={`Revoke ${one.begins}… of ${one.company}/${one.name}`}>
          Revoke
        </Button>
      ),
    },
  ];
  return (
    <>
      {good.length === 0 ? <Empty icon="user" title="This server asks for no key" /> : <Table label="Keys" columns={columns} items={good} keyOf={keyOf} />}
      {revoked.length > 0 ? (
        <details className="border-t border-line">
          <summary className="px-4 py-2.5 text-sm font-medium">{plural(revoked.length, "revoked key")}</summary>
          <Table label="Revoked keys" columns={REVOKED} items={revoked} keyOf={keyOf} />
        </details>
      ) : null}
      <Make companies={companies.map((one) => one.company)} />
      <Revoking key={going?.id} going={going} close={() => revoke(null)} />
    </>
  );
}

const keyOf = (one: KeyRow): string => `${one.company} ${one.id}`;

const COLUMNS: Column<KeyRow>[] = [
  {
    head: "Name",
    cell: (one) => (
      <span className="font-medium">
        <Plain text={one.name} />
      </span>
    ),
  },
  { head: "Company", cell: (one) => <Plain text={one.company} /> },
  { head: "May", cell: (one) => <span className={runsTheServer(one) ? "font-medium" : "text-quiet"}>{role(one)}</span> },
  { head: "Begins with", cell: (one) => <Begins text={one.begins ?? ""} /> },
  { head: "Made", cell: (one) => <Ago atMs={one.made_ms} /> },
];

const REVOKED: Column<KeyRow>[] = [...COLUMNS, { head: "Revoked", cell: (one) => (one.revoked_ms === null ? null : <Ago atMs={one.revoked_ms} />) }];

function Begins({ text }: { text: string }) {
  return (
    <span className="font-mono text-[0.92em]">
      <Plain text={`${text}…`} />
    </span>
  );
}

function Make({ companies }: { companies: readonly string[] }) {
  const id = useId();
  const [company, setCompany] = useState("");
  const [name, setName] = useState("");
  const make = useKeyMaking();
  const made = make.data;
  const send = (event: FormEvent): void => {
    event.preventDefault();
    if (!company.trim() || !name.trim()) return;
    make.mutate(
      { company: company.trim(), name: name.trim() },
      {
        onSuccess: () => {
          setCompany("");
          setName("");
        },
      },
    );
  };
  return (
    <div className="flex flex-col gap-3 border-t border-line p-3">
      <form onSubmit={send} aria-label="Make a key" className="flex flex-wrap items-center gap-2">
        <input aria-label="Company" placeholder="Company" list={id} maxLength={128} autoComplete="off" spellCheck={false} className="field w-44 text-sm" value={company} onChange={(event) => setCompany(event.target.value)} />
        <datalist id={id}>
          {companies.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
        <input aria-label="Who is to have the key" placeholder="Person or program" maxLength={200} autoComplete="off" className="field w-52 text-sm" value={name} onChange={(event) => setName(event.target.value)} />
        <Button icon="plus" type="submit" busy={make.isPending} disabled={!company.trim() || !name.trim()}>
          Make a key
        </Button>
        <span className="text-sm text-quiet">Whoever has it is that person, in rooms and in decisions. A company that is new is made with it.</span>
      </form>
      <Refusal error={make.error} />
      {made ? (
        <div role="status" className="toned tone-wait flex flex-col gap-2 rounded-md p-3 text-sm">
          <p className="flex items-start gap-2">
            <Icon name="alert" className="mt-0.5" />
            <span>
              The key of <Plain text={`${made.company}/${made.made.name}`} />. <strong>It is shown only now</strong>, and is nowhere else.
            </span>
          </p>
          <div className="flex items-center gap-2">
            <code tabIndex={0} aria-label="The key" className="min-w-0 flex-1 overflow-x-auto rounded-md bg-sunken p-2 font-mono whitespace-nowrap text-ink">
              {made.key}
            </code>
            <CopyButton text={made.key} label="Copy the key" />
            <Button onClick={() => make.reset()}>I have it</Button>
          </div>
        </div>
      ) : null}
    </div>
  );
}

function Revoking({ going, close }: { going: KeyRow | null; close: () => void }) {
  const revoke = useKeyRevoking();
  const me = useSession();
  const mine = going !== null && me?.by === "session" && me.company === going.company && me.name === going.name;
  return (
    <Confirm
      open={going !== null}
      title={going ? `Revoke the key of ${going.company}/${going.name}?` : ""}
      about={
        <>
          <p>It opens nothing any more after five seconds at most, and the browsers of whom it acts for are signed out. It cannot be had back.</p>
          {mine ? <p className="mt-2 font-medium text-bad">This browser is one of them.</p> : null}
          {going && runsTheServer(going) ? <p className="mt-2 font-medium text-bad">It is the key of whoever runs the server, and the command line on its machine uses it. The server makes another when it is started again, and prints it.</p> : null}
        </>
      }
      verb="Revoke it"
      busy={revoke.isPending}
      error={revoke.error}
      close={close}
      done={() => going && revoke.mutate(going, { onSuccess: close })}
    />
  );
}

const MINE: Column<Schemas["KeyName"]>[] = [
  {
    head: "Name",
    cell: (one) => (
      <span className="font-medium">
        <Plain text={one.name} />
      </span>
    ),
  },
  { head: "Begins with", cell: (one) => <Begins text={one.begins} /> },
  { head: "Made", cell: (one) => <Ago atMs={one.created_ms} /> },
];

/** What somebody sees who does not run the server: their company's keys, and who can change them. */
function Own() {
  const found = useKeys();
  const me = useSession();
  return (
    <Section title="Keys" about={found.data ? `Those of your company. What they are stands nowhere: only their fingerprints are kept. ${plural(found.data.sessions, "browser")} signed in.` : undefined}>
      <p className="flex items-start gap-2 border-b border-line px-4 py-3 text-sm text-quiet">
        <Icon name="user" className="mt-0.5" />
        <span>
          {me ? (
            <>
              You act as <Plain text={`${me.company}/${me.name}`} />.{" "}
            </>
          ) : null}
          Keys are made and revoked by whoever runs this server, with its admin key: here, or by <code className="font-mono">perdure companies add</code> and <code className="font-mono">revoke</code>. Ask them for one, or to take one back.
        </span>
      </p>
      {found.isPending ? (
        <Loading what="keys" />
      ) : found.data === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : found.data.items.length === 0 ? (
        <Empty icon="user" title="Your company has no key" />
      ) : (
        <Table label="Keys" columns={MINE} items={found.data.items} keyOf={(one) => `${one.name} ${one.begins} ${one.created_ms}`} />
      )}
    </Section>
  );
}
