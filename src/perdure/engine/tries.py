"""The deadline for all tries of a task: nothing is tried after it, and what waits for its next try then has failed."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core import states
from perdure.core.events import Kind
from perdure.engine.change import set_task, tell, whose
from perdure.engine.due import Pick, Sweep, due, passed
from perdure.engine.task import rules_of
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

TRIES = "tries"
"""Kind of the deadline after which a task is not tried any more."""
OVERDUE = Pick("deadlines_due", {"kind": TRIES})


def time_left(task: Row, now_ms: int) -> int | None:
    """Return how long a task may still be tried, in milliseconds; None if it has no deadline, or was never tried."""
    deadline_ms = rules_of(task).deadline_ms
    if not deadline_ms:
        return None
    return deadline_ms if task["first_ms"] is None else task["first_ms"] + deadline_ms - now_ms


def out_of_time(task: Row, at_ms: int) -> bool:
    """Say whether no try of the task may begin at that time."""
    left_ms = time_left(task, at_ms)
    return left_ms is not None and left_ms <= 0


def overdue(task: Row, error: str) -> str:
    """Say why a task that has tries left is not tried again."""
    seconds = rules_of(task).deadline_ms / 1000
    return f"{error}; it is not tried again, as its deadline of {seconds:g} s for all tries would have passed by then"


def watch_tries(tx: Tx, task: Row) -> None:
    """Have the deadline kept, from the first try on."""
    if task["first_ms"] is None and (left_ms := time_left(task, tx.now_ms)) is not None:
        scope = {"shard": task["shard"], "execution": task["execution"], "address": task["address"]}
        tx.run("set_deadline", **scope, kind=TRIES, due_ms=tx.now_ms + left_ms)


def attempt_ms(task: Row, now_ms: int) -> int:
    """Return how long the next attempt may take: its time-out, but not longer than the deadline; 0 is no limit."""
    left_ms = time_left(task, now_ms)
    if left_ms is None:
        return task["timeout_ms"]
    return max(min(task["timeout_ms"] or left_ms, left_ms), 1)


@operation()
def expire_tries(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
    """Fail tasks whose deadline passed while they waited for their next try. One that runs is stopped by its worker."""
    found = due(tx, rows, OVERDUE)
    yield [Ref(one["shard"], one["execution"]) for one in found]
    for execution, task in passed(tx, found, TRIES, "deadline of tries"):
        if task["state"] == states.Task.READY:
            _expire(tx, execution, task)
    return [len(found)] + [0] * (len(rows) - 1)


def _expire(tx: Tx, execution: ExecutionRow, task: Row) -> None:
    if not out_of_time(task, tx.now_ms):
        return
    seconds = rules_of(task).deadline_ms / 1000
    error = f"its deadline of {seconds:g} s for all tries passed before the next one; it was tried {task['attempt']}x"
    set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "expire"))
    tell(tx, execution, Kind.TASK_FAILED, task["address"], {**whose(task), "error": error, "code": "deadline"})
