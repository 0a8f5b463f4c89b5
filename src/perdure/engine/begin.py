"""Commit the claim of an `at_most_once` task, just before its body starts. Never released, never given twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core import states
from perdure.core.events import Kind
from perdure.core.work import Answer, Begin
from perdure.engine.record import consume_approval
from perdure.engine.task import held_tasks, ref_of
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

_NO_BEGIN = frozenset({states.Execution.PAUSED, states.Execution.STUCK, states.Execution.CANCELLING})


@dataclass(frozen=True, slots=True)
class Beginning:
    """A worker about to start a body, in its company's name."""

    company: str
    begin: Begin


def _keys(row: Beginning) -> tuple[str, ...]:
    return (f"task/{row.begin.execution}/{row.begin.address}",)


@operation(keys=_keys)
def begin(tx: Tx, rows: Sequence[Beginning]) -> Steps[Answer]:
    """Answer `accepted` once the claim is durable and the approval it stands on is consumed; only then may it act.

    The same nonce gets the same answer. `cancel`: the execution does not want it any more; hand the task back.
    """
    yield [ref_of(row.begin) for row in rows]
    found = held_tasks(tx, [(row.company, row.begin) for row in rows])
    return [_begin(tx, row.begin, *held) if held else Answer.LEASE_LOST for row, held in zip(rows, found, strict=True)]


def _begin(tx: Tx, row: Begin, execution: ExecutionRow, task: Row) -> Answer:
    if task["state"] == states.Task.BEGUN:
        return Answer.ALREADY_ACCEPTED if task["begin_nonce"] == row.nonce else Answer.CONFLICT
    if not states.allowed(states.TASK_TABLE, task["state"], "begin") or execution.ended:
        return Answer.LEASE_LOST
    if execution.state in _NO_BEGIN:
        return Answer.CANCEL
    if task["approval"] and task["claims"] == 0 and not consume_approval(tx, execution, task["approval"]):
        return Answer.CONFLICT
    tx.run(
        "begin_task",
        shard=execution.shard,
        execution=execution.id,
        address=row.address,
        begin_nonce=row.nonce,
        now_ms=tx.now_ms,
    )
    facts = {"claim": task["claims"] + 1, "worker": task["worker"], "attempt": task["attempt"]}
    tx.append(execution, Kind.TASK_BEGUN, row.address, data=facts)
    return Answer.ACCEPTED
