"""Read an execution's log as it is stored, with its hashes, for those who check it. Changes nothing."""

from __future__ import annotations

from perdure.core.chain import Link, LogPage
from perdure.engine.query import PAGE_BYTES, execution_row_of
from perdure.store.protocol import Reads, Row


def log_page(reads: Reads, company: str, execution: str, *, after: int, limit: int) -> LogPage:
    """Return stored rows above `after`, the evidence behind the last event included; at least one if there is any.

    Raises `NotFound`. What the page says of the log's end is of the same view as its rows.
    """
    row = execution_row_of(reads, company, execution)
    scope = {"shard": row["shard"], "execution": execution}
    last = row["next_seq"] - 1
    found = reads.rows("chain_after", **scope, after=after, limit=limit, most=PAGE_BYTES)
    if len(found) < limit and (found[-1]["seq"] if found else after) >= last:
        rest = limit - len(found)
        found += reads.rows("evidence_after", **scope, after=max(after, last), limit=rest)
    more = reads.row("last_evidence", **scope)
    return LogPage(
        execution=execution,
        agent=row["agent"],
        state=row["state"],
        head=row["chain"],
        events=last,
        last_seq=last if more is None or more["seq"] is None else more["seq"],
        links=tuple(map(_link, found)),
    )


def _link(row: Row) -> Link:
    return Link(**row)
