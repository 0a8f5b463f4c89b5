"""Take a worker's report of how an attempt ended, and do all that follows from it in the same transaction.

First write wins; the same report again is accepted and changes nothing; an old fence is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from perdure.core import codec, states
from perdure.core.costs import Costs, total
from perdure.core.delivery import NOT_DONE, UNKEPT, Delivery, Tries, Verdict, after_failure, probed_address
from perdure.core.events import Kind
from perdure.core.retry import next_pause
from perdure.core.work import Answer, Failure, Report
from perdure.engine.change import set_task, tell, unwanted, whose
from perdure.engine.probe import probe_failed, probe_found
from perdure.engine.task import held_tasks, ref_of, rules_of
from perdure.engine.tries import out_of_time, overdue
from perdure.engine.uncertain import contradict, lose, other_claim, serve_held
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Completion:
    """A worker's report, in its company's name."""

    company: str
    report: Report
    chance: float = 0.0
    """From 0 to 1: how much of the jitter is cut off the pause that may follow. Dice roll outside of transactions."""

    @property
    def size(self) -> int:
        return codec.weight(self.report.value) + len(self.report.saved or "")


def _keys(row: Completion) -> tuple[str, ...]:
    return (f"task/{row.report.execution}/{probed_address(row.report.address)}",)


@operation(keys=_keys)
def complete(tx: Tx, rows: Sequence[Completion]) -> Steps[Answer]:
    """Record results, retries, deaths and unknown outcomes, and wake the executions concerned."""
    yield [ref_of(row.report) for row in rows]
    found = held_tasks(tx, [(row.company, row.report) for row in rows])
    return [
        settle(tx, row, *held) if held else other_claim(tx, row.company, row.report)
        for row, held in zip(rows, found, strict=True)
    ]


def settle(tx: Tx, said: Completion, execution: ExecutionRow, task: Row) -> Answer:
    """Take a report about a task that is locked, from the holder of its newest claim."""
    row = said.report
    if row.outcome == "completed":
        return _succeed(tx, row, execution, task)
    failure = row.failure or Failure(code=row.outcome, message=f"the attempt was {row.outcome}")
    late = task["state"] == states.Task.UNCERTAIN and failure.code == NOT_DONE
    if task["state"] in states.TASK_HELD or late:
        if row.saved is not None:
            scope = {"shard": execution.shard, "execution": execution.id, "address": row.address}
            tx.run("save_task", **scope, saved=row.saved)
        cancelled = row.outcome == "cancelled"
        fail_attempt(tx, execution, task, failure, cancelled=cancelled, chance=said.chance, cost=row.cost)
        return Answer.ACCEPTED
    if task["state"] == states.Task.DONE and task["probe_of"] is None:
        return contradict(tx, execution, task, row)
    return _repeated(task, {states.Task.DEAD, states.Task.UNCERTAIN, states.Task.READY})


def _succeed(tx: Tx, row: Report, execution: ExecutionRow, task: Row) -> Answer:
    if task["probe_of"] is not None:
        return probe_found(tx, execution, task, row.value)
    if task["state"] == states.Task.DEAD:
        return contradict(tx, execution, task, row)
    if not states.allowed(states.TASK_TABLE, task["state"], "complete") or _left(task):
        return _repeated(task, {states.Task.DONE})
    late = task["state"] not in states.TASK_HELD
    facts = {**whose(task), "value": row.value, **({"late": True} if late else {}), **_cost(row.cost)}
    set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "complete"))
    tell(tx, execution, Kind.TASK_COMPLETED, row.address, facts)
    serve_held(tx, execution, task, row.value)
    return Answer.ACCEPTED


def _left(task: Row) -> bool:
    """Say whether its last holder had said that it is through: only who fell silent has something left to say."""
    return task["state"] == states.Task.READY and task["worker"] is None


def _repeated(task: Row, same: set[states.Task]) -> Answer:
    return Answer.ALREADY_ACCEPTED if task["state"] in same else Answer.CONFLICT


def _cost(cost: Costs) -> dict[str, Any]:
    """Return a cost as events have it: those without one stay as they were."""
    return {"cost": total([cost])} if cost else {}


def fail_attempt(
    tx: Tx,
    execution: ExecutionRow,
    task: Row,
    failure: Failure,
    *,
    cancelled: bool = False,
    chance: float = 0.0,
    cost: Costs | None = None,
) -> None:
    """End an attempt that brought no result: try again, give up, or admit that nobody knows."""
    if task["probe_of"] is not None:
        probe_failed(tx, execution, task, failure)
        return
    pause_ms = next_pause(rules_of(task), task["attempt"] + 1, chance, failure.retry_after_ms)
    permanent = failure.permanent or cancelled or unwanted(execution, task)
    if not permanent and out_of_time(task, tx.now_ms + pause_ms):
        permanent, failure = True, replace(failure, message=overdue(task, failure.message))
    facts = {**whose(task), "error": failure.message, "code": failure.code, **_cost(cost or {})}
    verdict = after_failure(_tries(task, failure, permanent=permanent, next_ms=tx.now_ms + pause_ms))
    match verdict:
        case Verdict.RETRY | Verdict.TAKE_BACK:
            event = "retry" if verdict is Verdict.RETRY else "take_back"
            set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], event), pause_ms=pause_ms)
            tell(tx, execution, Kind.ATTEMPT_FAILED, task["address"], {**facts, "retry_ms": pause_ms})
        case Verdict.DIE:
            set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "die"))
            tell(tx, execution, Kind.TASK_FAILED, task["address"], facts)
        case Verdict.LOSE:
            lose(tx, execution, task, _why(task, failure), facts, silent=failure.code == LEASE_EXPIRED)
        case _:
            assert_never(verdict)


_ACTING = frozenset({Delivery.AT_LEAST_ONCE, Delivery.TRANSACTIONAL})
"""Of `at_most_once` bodies the worker keeps the text of such a result."""

LEASE_EXPIRED = "lease_expired"
"""Code of the failure of an attempt whose worker fell silent."""


def _tries(task: Row, failure: Failure, *, permanent: bool, next_ms: int) -> Tries:
    begun = task["state"] not in (states.Task.LEASED, states.Task.READY)
    return Tries(
        state=task["state"],
        attempt=task["claims"] if begun else task["attempt"],
        most=task["max_attempts"],
        permanent=permanent,
        not_done=failure.code == NOT_DONE,
        key_forgotten=key_forgotten(task, next_ms),
        unkept=_unkept(task, failure),
    )


def _unkept(task: Row, failure: Failure) -> bool:
    return failure.code in UNKEPT and task["delivery"] in _ACTING


def key_forgotten(task: Row, at_ms: int) -> bool:
    """Say whether, at that time, whoever is called does not know the key of an earlier try any more."""
    if task["first_ms"] is None or task["attempt"] == 0 or task["delivery"] != Delivery.AT_LEAST_ONCE:
        return False
    ttl_ms = rules_of(task).key_ttl_ms
    return bool(ttl_ms) and at_ms >= task["first_ms"] + ttl_ms


def _why(task: Row, failure: Failure) -> str:
    if _unkept(task, failure):
        return f"it may have acted, but what it gave cannot be kept: {failure.message}"
    return failure.message if task["state"] == states.Task.BEGUN else forgotten(task, failure.message)


def forgotten(task: Row, error: str) -> str:
    """Say why a task that could be tried again is not."""
    seconds = rules_of(task).key_ttl_ms / 1000
    return f"{error}; it is not tried again, as its idempotency key is remembered for {seconds:g} s only"
