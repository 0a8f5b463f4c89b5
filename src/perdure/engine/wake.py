"""Make an execution claimable when something happened to it. The one rule behind every completion.

Within one operation an execution leaves the lists `owned` and `ready` before it enters one, never after. So these
changes can wait for its end, where those of a kind go together.
"""

from __future__ import annotations

from typing import Literal

from perdure.core import codec, states
from perdure.core.events import Kind
from perdure.core.queues import ahead_ms
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

KEPT_MS = 100
"""How long others leave an execution to the worker that parked it and may still have its live coroutine. A hint."""
_MARK = 8
"""Characters of a worker's id, all of them chance, by which it is known to be that one: each execution that waits keeps
them, and two workers of one mark cost 100 ms."""
SOON_MS = 1
"""When those are to ask again who wait for tasks of executions that a transaction does not hold: a wish that stands
cannot be granted inside it."""

FENCE_LEAP = 2**40
"""By which fences rise where a store is brought back to an older state: more than anything was ever claimed or tried.

Who was given a fence since then stays shut out, and what is left over whole leaps counts the claims.
"""


def wake(tx: Tx, row: ExecutionRow) -> None:
    """Put a parked execution on the ready list; to an owned one its holder's next append brings the news.

    Paused and stuck executions are never put there: resuming does that. Nor is one whose start is still to come.
    """
    if row.ownership == states.Ownership.PARKED and row.may("wake") and not not_begun(row):
        row.move("wake")
        row.ownership = states.Ownership.READY
        put_ready(tx, row)


def mark_of(worker: str) -> str:
    """Return what is remembered of a worker that may have an execution's live coroutine."""
    return worker[-_MARK:]


def not_begun(row: ExecutionRow) -> bool:
    """Say whether an execution waits for the time that it is to begin at: nobody ever had it."""
    return row.state == states.Execution.WAITING and never_claimed(row.fence)


def never_claimed(fence: int) -> bool:
    """Say whether an execution of this fence was never anybody's."""
    return fence % FENCE_LEAP == 0


def put_ready(tx: Tx, row: ExecutionRow, *, abandoned: bool = False) -> None:
    """Insert the `ready` row of an execution whose ownership is `ready`."""
    tx.later(
        "insert_ready",
        shard=row.shard,
        execution=row.id,
        company=row.company,
        lane=row.lane,
        since_ms=tx.now_ms,
        ahead_ms=ahead_ms(row.priority),
        abandoned=int(abandoned),
        kept_by="" if abandoned else row.kept_by,
    )
    tx.announce("ready", row.lane)
    if row.kept_by:
        tx.announce("ready", row.lane, after_ms=KEPT_MS)


def was_abandoned(tx: Tx, row: ExecutionRow) -> bool:
    """Say of a locked execution that is ready whether its last holder let go of nothing."""
    found = tx.row("was_abandoned", shard=row.shard, execution=row.id)
    return found is not None and bool(found["abandoned"])


def shut_out(tx: Tx, row: ExecutionRow) -> None:
    """End what a holder that never let go of a paused execution may do: the claim after a resume would not know."""
    row.fence += 1
    tx.append(row, Kind.TAKEN_OVER, data={"fence": row.fence})


def hold_back(tx: Tx, row: ExecutionRow, event: Literal["pause", "stick"], reason: str, message: str) -> bool:
    """Have an execution go on only once somebody has acted, and say why in its log. False if its state knows no such
    thing now."""
    if not row.may(event):
        return False
    row.move(event)
    row.reason = reason
    facts = {"reason": reason, "message": message, "by": "perdure"}
    tx.append(row, Kind.PAUSED if event == "pause" else Kind.STUCK, data=codec.encode(facts))
    return True


def let_go(tx: Tx, row: ExecutionRow) -> None:
    """End the ownership of an execution without making it claimable."""
    tx.later("delete_owned", shard=row.shard, execution=row.id)
    tx.later("delete_ready", shard=row.shard, execution=row.id)
    row.ownership = states.Ownership.PARKED
    row.changed = True
