"""Take a worker's report of how an attempt ended, and do all that follows from it in the same transaction.

First write wins; the same report again is accepted and changes nothing; an old fence is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from perdure.core import states
from perdure.core.delivery import Verdict, after_failure
from perdure.core.events import Kind
from perdure.core.retry import pause_before
from perdure.core.work import Answer, Failure, Report
from perdure.engine.task import held_tasks, ref_of, rules_of
from perdure.engine.wake import wake
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Completion:
    """A worker's report, in its company's name."""

    company: str
    report: Report


def _keys(row: Completion) -> tuple[str, ...]:
    return (f"task/{row.report.execution}/{row.report.address}",)


@operation(keys=_keys)
def complete(tx: Tx, rows: Sequence[Completion]) -> Steps[Answer]:
    """Record results, retries, deaths and unknown outcomes, and wake the executions concerned."""
    yield [ref_of(row.report) for row in rows]
    found = held_tasks(tx, [(row.company, row.report) for row in rows])
    return [
        _settle(tx, row.report, *held) if held else Answer.LEASE_LOST for row, held in zip(rows, found, strict=True)
    ]


def _settle(tx: Tx, row: Report, execution: ExecutionRow, task: Row) -> Answer:
    if row.outcome == "completed":
        return _succeed(tx, row, execution, task)
    if task["state"] not in states.TASK_HELD:
        return _repeated(task, {states.Task.DEAD, states.Task.UNCERTAIN, states.Task.READY})
    failure = row.failure or Failure(code=row.outcome, message=f"the attempt was {row.outcome}")
    fail_attempt(tx, execution, task, failure, cancelled=row.outcome == "cancelled")
    return Answer.ACCEPTED


def _succeed(tx: Tx, row: Report, execution: ExecutionRow, task: Row) -> Answer:
    if not states.allowed(states.TASK_TABLE, task["state"], "complete"):
        return _repeated(task, {states.Task.DONE})
    late = task["state"] == states.Task.UNCERTAIN
    facts = {**whose(task), "value": row.value, **({"late": True} if late else {})}
    set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "complete"))
    tell(tx, execution, Kind.TASK_COMPLETED, row.address, facts)
    return Answer.ACCEPTED


def _repeated(task: Row, same: set[states.Task]) -> Answer:
    return Answer.ALREADY_ACCEPTED if task["state"] in same else Answer.CONFLICT


def fail_attempt(tx: Tx, execution: ExecutionRow, task: Row, failure: Failure, *, cancelled: bool = False) -> None:
    """End an attempt that brought no result: try again, give up, or admit that nobody knows."""
    verdict = after_failure(
        state=task["state"],
        attempt=task["attempt"],
        max_attempts=task["max_attempts"],
        permanent=failure.permanent or cancelled or unwanted(execution),
    )
    facts = {**whose(task), "error": failure.message, "code": failure.code}
    match verdict:
        case Verdict.RETRY:
            pause_ms = failure.retry_after_ms or pause_before(rules_of(task), task["attempt"] + 1, 0.0)
            set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "retry"), pause_ms=pause_ms)
            tell(tx, execution, Kind.ATTEMPT_FAILED, task["address"], {**facts, "retry_ms": pause_ms})
        case Verdict.DIE:
            set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "die"))
            tell(tx, execution, Kind.TASK_FAILED, task["address"], facts)
        case Verdict.LOSE:
            set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "lose"))
            tell(tx, execution, Kind.TASK_UNCERTAIN, task["address"], {**facts, "why": failure.message})
        case _:
            assert_never(verdict)


def unwanted(execution: ExecutionRow) -> bool:
    """Say whether nothing more shall be tried for an execution: it has ended, or is to be cancelled."""
    return execution.ended or execution.state == states.Execution.CANCELLING


def whose(task: Row) -> dict[str, Any]:
    """Return who ran the attempt, which try it was and since when."""
    return {"attempt": task["attempt"], "worker": task["worker"], "started_ms": task["started_ms"]}


def set_task(
    tx: Tx, execution: ExecutionRow, task: Row, state: str, *, pause_ms: int = 0, attempt: int | None = None
) -> None:
    """Change a task's state; back on its queue it is announced, at once or when its pause is over."""
    again = state == states.Task.READY
    tx.later(
        "set_task",
        shard=execution.shard,
        execution=execution.id,
        address=task["address"],
        state=state,
        run_at_ms=tx.now_ms + pause_ms if again else task["run_at_ms"],
        worker=None if again else task["worker"],
        attempt=task["attempt"] if attempt is None else attempt,
        now_ms=tx.now_ms,
    )
    if again:
        tx.announce("tasks", f"{execution.company}/{task['queue']}", after_ms=pause_ms)


def tell(tx: Tx, execution: ExecutionRow, kind: Kind, address: str, facts: dict[str, Any]) -> None:
    """Append a fact about a task and wake its execution. An ended log is final: what comes then is kept as evidence."""
    if execution.ended:
        tx.testify(execution, kind, address, facts)
        return
    tx.append(execution, kind, address, data=facts)
    wake(tx, execution)
