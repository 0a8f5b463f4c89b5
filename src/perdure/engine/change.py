"""Change the state of a task, and say so in its execution's log."""

from __future__ import annotations

from typing import Any

from perdure.core import states
from perdure.core.delivery import is_simulation
from perdure.core.events import Kind
from perdure.engine.wake import SOON_MS, wake
from perdure.store.protocol import Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


def set_task(
    tx: Tx, execution: ExecutionRow, task: Row, state: str, *, pause_ms: int = 0, attempt: int | None = None
) -> None:
    """Change a task's state; back on its queue it is announced, at once or when its pause is over."""
    again = state == states.Task.READY
    doubt = state == states.Task.UNCERTAIN or (task["doubt"] and state not in states.TASK_ENDED)
    tx.later(
        "set_task",
        shard=execution.shard,
        execution=execution.id,
        address=task["address"],
        state=state,
        run_at_ms=tx.now_ms + pause_ms if again else task["run_at_ms"],
        worker=None if again else task["worker"],
        attempt=task["attempt"] if attempt is None else attempt,
        doubt=int(doubt),
        now_ms=tx.now_ms,
    )
    if task["state"] == states.Task.UNCERTAIN:
        unwatch(tx, execution, task["address"])
    queue = f"{execution.company}/{task['queue']}"
    if again:
        tx.announce("tasks", queue, after_ms=pause_ms)
    elif task["doubt"] or task["intent"] is not None:  # an equal call may have been held because of it
        tx.announce("tasks", queue)
    if task["limited"] and task["state"] in states.TASK_HELD:  # others may have been held back by a limit
        tx.announce("tasks", queue, after_ms=SOON_MS)


def unwatch(tx: Tx, execution: ExecutionRow, address: str) -> None:
    """An effect is not uncertain any more: nobody need find out, and no policy rules."""
    scope = {"shard": execution.shard, "execution": execution.id, "address": address}
    tx.later("delete_deadline", **scope, kind=RULE)
    tx.later("drop_probe", **scope, now_ms=tx.now_ms)


RULE = "rule"
"""Kind of the deadline after which an effect that is still uncertain is ruled over as its author declared."""


def tell(tx: Tx, execution: ExecutionRow, kind: Kind, address: str, facts: dict[str, Any]) -> None:
    """Append a fact about a task and wake its execution. An ended log is final: what comes then is kept as evidence."""
    if execution.ended:
        tx.testify(execution, kind, address, facts)
        return
    tx.append(execution, kind, address, data=facts)
    wake(tx, execution)


def whose(task: Row) -> dict[str, Any]:
    """Return who ran the attempt, which try it was and since when, and whether it only stood in for the call."""
    facts = {"attempt": task["attempt"], "worker": task["worker"], "started_ms": task["started_ms"]}
    return {**facts, "simulated": True} if is_simulation(task["tool"]) else facts


def unwanted(execution: ExecutionRow, task: Row) -> bool:
    """Say whether nothing more shall be tried of a task: its execution has ended, or was cancelled after it was
    scheduled. What recorded cleanup schedules after the cancel runs as usual; and finding out what became of an effect
    is wanted whatever became of its execution."""
    if task["probe_of"] is not None:
        return False
    return execution.ended or stopped(execution, task)


def stopped(execution: ExecutionRow, task: Row) -> bool:
    """Say whether an execution was cancelled after it scheduled the task."""
    if execution.state != states.Execution.CANCELLING or task["probe_of"] is not None:
        return False
    return execution.cancel_seq is None or task["scheduled_seq"] < execution.cancel_seq
