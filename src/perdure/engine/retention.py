"""Delete executions that ended long ago, with all that belongs to them. Bounded per pass; never one that is needed.

How long they are kept is a fact of the store, so that all servers and programs on it agree; the last word said counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.engine.due import Pick, Sweep, due
from perdure.store.operation import Steps, operation
from perdure.store.protocol import EVERY_COMPANY, Reads, Ref, Row
from perdure.store.tx import Tx

DEFAULT_MS = 30 * 24 * 3_600_000
"""What holds where nobody said anything."""
OFF_MS = 2**62
"""For ever: no time is that long ago."""
MOST_EVENTS = 5_000
"""In the logs that one pass deletes; an execution with more goes alone."""

_KEY = "retention_ms"

OVER = Pick("executions_over", {"default_ms": DEFAULT_MS})

SCOPED = {
    "executions": "forget_execution",
    "start_keys": "forget_start_keys",
    "events": "forget_events",
    "evidence": "forget_evidence",
    "ready": "forget_ready",
    "owned": "forget_owned",
    "tasks": "forget_tasks",
    "waitpoints": "forget_waitpoints",
    "votes": "forget_votes",
    "timers": "forget_timers",
    "deadlines": "forget_deadlines",
    "inbox_keys": "forget_inbox_keys",
    "tagged": "forget_tagged",
    "lineage": "forget_lineage",
    "blob_uses": "forget_blob_uses",
    "room_halted": "forget_halted",
    "room_reservations": "forget_reservations",
    "a2a_tasks": "forget_a2a_tasks",
    "a2a_messages": "forget_a2a_messages",
    "a2a_pushes": "forget_a2a_pushes",
    "relay_onlookers": "forget_relay_onlookers",
    "relay_replies": "forget_relay_replies",
    "relay_pieces": "forget_relay_pieces",
}
"""Every table with rows of an execution, and the query that deletes them."""
KEPT = frozenset({"room_wakes"})
"""Tables that name an execution and outlive it: what was claimed for a wake stays claimed."""


@operation()
def set_retention(tx: Tx, rows: Sequence[int]) -> Steps[None]:
    """Say how long the store keeps executions that have ended, in milliseconds."""
    yield ()
    tx.run("set_meta", key=_KEY, value=str(rows[-1]))
    return [None] * len(rows)


def over_ms(reads: Reads) -> int | None:
    """Return when the execution that ended first is past its time. None: none has ended."""
    row = reads.row("first_over", default_ms=DEFAULT_MS)
    return None if row is None else row["over_ms"]


@operation()
def forget(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
    """Delete executions that ended longer ago than the store keeps them, with every row of theirs.

    Not one with an effect that is uncertain or under way, nor one whose parent, child or fork goes on. Each is deleted
    once, whoever sweeps. Returns how many, and the limit where a long log cut the pass short.
    """
    limit = sum(row.limit for row in rows)
    found = due(tx, rows, OVER)
    taken = _within(found)
    yield [Ref(one["shard"], one["execution"]) for one in taken]
    tx.write_out()  # a fork that is made in this very transaction needs its origin
    still = {one["execution"] for one in due(tx, rows, OVER)}
    gone = [row for one in taken if one["execution"] in still and (row := tx.execution(one["execution"])) is not None]
    if gone:
        tx.speak_for(EVERY_COMPANY)  # whosever they are
    for query in SCOPED.values():
        tx.many(query, [{"shard": row.shard, "execution": row.id} for row in gone])
    tx.forget(gone)
    count = limit if len(taken) < len(found) else len(gone)
    return [count] + [0] * (len(rows) - 1)


def _within(found: Sequence[Row]) -> list[Row]:
    """Return as many, at least one, as have no more events together than one pass may delete."""
    taken: list[Row] = []
    left = MOST_EVENTS
    for one in found:
        left -= one["next_seq"]
        if left < 0 and taken:
            break
        taken.append(one)
    return taken
