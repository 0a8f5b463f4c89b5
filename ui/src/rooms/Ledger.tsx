/** A room's ledger: who did what, woken by what, on whose word. Each line's hash covers all before it. */

import { Section } from "../design/Section";
import { Empty, Failed, Loading } from "../design/States";
import { type Column, Table } from "../design/Table";
import { Clock } from "../design/Time";
import { Plain } from "../text/Text";
import { count } from "../text/time";
import { type Room, useLedger, useMyCompany } from "./data";
import { type Act, actOf } from "./stories";
import { Company } from "./Whose";

export function Ledger({ room }: { room: Room }) {
  const found = useLedger(room);
  const own = useMyCompany();
  const acts = [...(found.data ?? [])].reverse().map(actOf);
  const columns: Column<Act>[] = [
    { head: "No.", cell: (one) => count(one.seq) },
    { head: "At", cell: (one) => <Clock atMs={one.atMs} /> },
    { head: "Act", cell: (one) => <span className="font-medium">{one.what}</span> },
    {
      head: "By",
      cell: (one) => (
        <span className="inline-flex flex-wrap items-center gap-1.5">
          <Plain text={one.by} /> {one.company ? <Company name={one.company} own={own} /> : null}
        </span>
      ),
    },
    {
      head: "About",
      cell: (one) => (
        <span className="font-mono text-[0.92em] text-quiet">
          <Plain text={one.about || "–"} />
        </span>
      ),
    },
    { head: "Decision", cell: (one) => <Plain text={one.decision} /> },
    {
      head: "Hash",
      cell: (one) => (
        <span className="font-mono text-xs text-quiet" title={one.hash}>
          {one.hash.slice(0, 12)}
        </span>
      ),
    },
  ];
  return (
    <Section title="Ledger" about={`The newest ${count(acts.length)} of ${count(room.last_seq)} acts. It holds no texts. To have it whole, and proven: perdure rooms export ${room.id}`}>
      {found.isPending ? (
        <Loading what="the ledger" />
      ) : found.data === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : acts.length === 0 ? (
        <Empty icon="list" title="Nothing was done yet" />
      ) : (
        <Table label="Ledger" columns={columns} items={acts} keyOf={(one) => String(one.seq)} />
      )}
    </Section>
  );
}
