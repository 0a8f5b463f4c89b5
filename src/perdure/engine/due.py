"""What a sweep looks at in one pass: what is due, the longest first, bounded, without rows known to be broken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.errors import InternalError
from perdure.store.protocol import Reads, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

Name = tuple[str, str]
"""An execution, or a company, and the address or name within it: what a broken row is called."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """One bounded pass."""

    limit: int
    skip: frozenset[Name] = frozenset()
    """Rows on which an earlier pass broke: the others are not to wait for them."""


@dataclass(frozen=True, slots=True)
class Pick:
    """The query that finds what is due. It takes `now_ms` and `limit`, and changes nothing."""

    query: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])


def due(tx: Tx, rows: Sequence[Sweep], pick: Pick) -> list[Row]:
    """Return what these passes together are to look at, in one list."""
    skip = frozenset[Name]().union(*(row.skip for row in rows))
    return _found(tx, pick, tx.now_ms, sum(row.limit for row in rows), skip)


def first_due(reads: Reads, pick: Pick, now_ms: int, skip: frozenset[Name]) -> Row | None:
    """Return what a pass of one would look at."""
    return next(iter(_found(reads, pick, now_ms, 1, skip)), None)


def _found(reads: Reads, pick: Pick, now_ms: int, limit: int, skip: frozenset[Name]) -> list[Row]:
    found = reads.rows(pick.query, **pick.params, now_ms=now_ms, limit=limit + len(skip))
    return [row for row in found if not skip or name_of(row) not in skip][:limit]


def passed(tx: Tx, found: Sequence[Row], kind: str, what: str) -> Iterator[tuple[ExecutionRow, Row]]:
    """Take deadlines of tasks off, once each, and yield their locked executions and tasks as they are now."""
    for one in found:
        execution = tx.execution(one["execution"])
        scope = {"shard": one["shard"], "execution": one["execution"], "address": one["address"]}
        task = tx.row("task", **scope)
        if execution is None or task is None:
            raise orphaned(what, one)
        if tx.run("delete_deadline", **scope, kind=kind):
            yield execution, task


def name_of(row: Row) -> Name:
    """Return what a row found by a `Pick` is called."""
    if "execution" in row.keys():  # noqa: SIM118 - database rows are mappings of several makes
        return row["execution"], row["address"] if "address" in row.keys() else ""  # noqa: SIM118
    return row["company"], row["name"]


def orphaned(what: str, row: Row) -> InternalError:
    """Return the error for a row whose execution is not there."""
    return InternalError(f"the {what} {name_of(row)} belongs to no execution", code="orphaned_row")
