"""Say what queues may give, and see how they stand. A setting counts from the next lease on, at every server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from perdure.core.queues import QueueLimits, QueueView
from perdure.engine.allowances import credit_of
from perdure.engine.wake import SOON_MS
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Reads, Row
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class ChangeQueue:
    """Somebody sets a queue's limits, all of them, or pauses it, or lets it go on. Checked by the caller."""

    company: str
    name: str
    verb: Literal["limit", "pause", "resume"]
    limits: QueueLimits = field(default_factory=QueueLimits)
    by: str = ""


def _keys(row: ChangeQueue) -> tuple[str, ...]:
    return (f"queue/{row.company}/{row.name}",)


@operation(keys=_keys)
def change_queue(tx: Tx, rows: Sequence[ChangeQueue]) -> Steps[None]:
    """Apply the changes, and tell those who wait for what may be given now. The same again changes nothing.

    What is leased stays leased: a lower limit holds back what would come next.
    """
    # In the first half: a queue's row is locked before any execution.
    order = sorted(rows, key=lambda row: (row.company, row.name))
    scopes = [{"company": row.company, "name": row.name, "now_ms": tx.now_ms} for row in order]
    held = [found[0] for found in tx.each("hold_queue", scopes)]
    yield ()
    for row, before in zip(order, held, strict=True):
        _change(tx, row, before)
    return [None] * len(rows)


def _change(tx: Tx, row: ChangeQueue, before: Row) -> None:
    after = _after(row, before)
    if all(before[name] == value for name, value in after.items()):
        return
    scope = {"company": row.company, "name": row.name}
    credit = _credit(before, after["rate"], after["period_ms"], tx.now_ms)
    tx.run("set_queue", **scope, **after, credit=credit, by=row.by, now_ms=tx.now_ms)
    if after["concurrency"] is not None or after["per_key"] is not None:
        tx.run("limit_held", company=row.company, queue=row.name)
    if not after["paused"]:
        tx.announce("tasks", f"{row.company}/{row.name}", after_ms=SOON_MS)


def _after(row: ChangeQueue, before: Row) -> dict[str, int | None]:
    if row.verb == "limit":
        limits = row.limits
        given = {"concurrency": limits.concurrency, "rate": limits.rate, "period_ms": limits.period_ms}
        return {"paused": before["paused"], **given, "per_key": limits.per_key}
    kept = {name: before[name] for name in ("concurrency", "rate", "period_ms", "per_key")}
    return {"paused": int(row.verb == "pause"), **kept}


def _credit(before: Row, rate: int | None, period_ms: int | None, now_ms: int) -> int:
    """Return what a rate begins with: all of it, or what another one that it comes after had left."""
    if rate is None or period_ms is None:
        return 0
    if before["rate"] is None:
        return rate * period_ms
    if (rate, period_ms) == (before["rate"], before["period_ms"]):
        return credit_of(before, now_ms)
    return min(credit_of(before, now_ms) // before["period_ms"], rate) * period_ms


def queue_views(reads: Reads, company: str, now_ms: int, name: str = "") -> list[QueueView]:
    """Return by name the queues of a company that hold tasks or that somebody said something of; or the named one."""
    said = {row["name"]: row for row in reads.rows("queues_of", company=company, name=name)}
    due = {row["queue"]: row for row in reads.rows("queue_backlogs", company=company, name=name, now_ms=now_ms)}
    held = {row["queue"]: row["held"] for row in reads.rows("queues_held", company=company, name=name)}
    everything = {*said, *due, *held, *([name] if name else ())}
    return [_view(one, said.get(one), due.get(one), held.get(one, 0)) for one in sorted(everything)]


def _view(name: str, said: Row | None, due: Row | None, held: int) -> QueueView:
    period_ms = said["period_ms"] if said else None
    return QueueView(
        name=name,
        paused=bool(said and said["paused"]),
        concurrency=said["concurrency"] if said else None,
        rate=said["rate"] if said else None,
        per_seconds=None if period_ms is None else period_ms / 1000,
        backlog=due["backlog"] if due else 0,
        leased=held,
        oldest_ms=due["oldest_ms"] if due else None,
        changed_by=said["changed_by"] if said else "",
        changed_ms=said["changed_ms"] if said else None,
        per_key=said["per_key"] if said else None,
    )
