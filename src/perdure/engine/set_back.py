"""What a store brought back to an older state means for its executions: nothing goes on by itself.

What happened since is forgotten here and stays done outside. So every execution is paused, every act that may be done
at most once and was still to come is uncertain, every schedule is paused, and no fence is given out a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core import states
from perdure.core.events import Kind
from perdure.core.work import LEASE_MS
from perdure.engine.change import whose
from perdure.engine.signal import cancel
from perdure.engine.uncertain import lose
from perdure.engine.wake import FENCE_LEAP, let_go
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class SetBack:
    """A page of executions."""

    after: Ref
    limit: int
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Doubts:
    """What was done to a page; `last` is None when there was nothing left."""

    last: Ref | None
    paused: int
    cancelled: int
    uncertain: int


@operation()
def set_back(tx: Tx, rows: Sequence[SetBack]) -> Steps[Doubts]:
    """Pause what has not ended, and doubt what it could do twice. Safe to repeat; one row a batch.

    What was being cancelled is cancelled once more, which cuts its cleanup: that may have happened, too.
    """
    [row] = rows
    found = tx.rows("open_executions", shard=row.after.shard, execution=row.after.execution, limit=row.limit)
    yield [Ref(one["shard"], one["id"]) for one in found]
    paused = cancelled = uncertain = 0
    for execution in filter(None, [tx.execution(one["id"]) for one in found]):
        uncertain += _doubt(tx, execution)
        if execution.ownership != states.Ownership.PARKED:
            let_go(tx, execution)
            tx.end_operation()  # before a cancel puts anything on the ready list
        if execution.state == states.Execution.CANCELLING:
            cancelled += 1
            cancel(tx, execution, by=row.by, reason=row.why)
        elif execution.may("pause"):
            paused += 1
            execution.move("pause")
            execution.reason = states.Reason.USER
            facts = {"reason": states.Reason.USER, "message": row.why, "by": row.by}
            tx.append(execution, Kind.PAUSED, data=facts)
        execution.fence += FENCE_LEAP
        tx.append(execution, Kind.TAKEN_OVER, data={"fence": execution.fence})
    last = Ref(found[-1]["shard"], found[-1]["id"]) if found else None
    return [Doubts(last, paused, cancelled, uncertain)]


def _doubt(tx: Tx, execution: ExecutionRow) -> int:
    """Make open acts at most once uncertain, and return how many; shut out who was given any task since."""
    scope = {"shard": execution.shard, "execution": execution.id}
    tasks = tx.rows("tasks_to_doubt", **scope)
    tx.run("leap_task_fences", **scope, leap=FENCE_LEAP)
    tx.run("end_leases_of", **scope, now_ms=tx.now_ms)
    for task in tasks:
        why = "the store was restored to an older state; it may have been done since, and what was told of it is lost"
        # Whoever was given it since may be at it right now: that it did not happen counts when their time is over.
        until_ms = max(tx.now_ms + task["timeout_ms"] + LEASE_MS, task["lease_until_ms"] or 0)
        tx.run("hold_in_doubt", **scope, address=task["address"], until_ms=until_ms)
        lose(tx, execution, {**task, "lease_until_ms": until_ms}, why, whose(task), silent=True)
    tx.end_operation()
    return len(tasks)


@operation()
def pause_schedules(tx: Tx, rows: Sequence[None]) -> Steps[int]:
    """Pause every schedule: ticks that have begun something since would begin it again. Return how many."""
    yield ()
    return [tx.run("pause_all_schedules") for _ in rows]
