"""Commit the claim of an `at_most_once` task, just before its body starts. Never released, never given twice."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core import states
from perdure.core.events import Kind
from perdure.core.ids import shard_of
from perdure.core.work import Answer, Begin
from perdure.engine.record import consume_approval
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

_NO_BEGIN = frozenset({states.Execution.PAUSED, states.Execution.STUCK, states.Execution.CANCELLING})


def _keys(row: Begin) -> tuple[str, ...]:
    return (f"task/{row.execution}/{row.address}",)


@operation(keys=_keys)
def begin(tx: Tx, rows: Sequence[Begin]) -> Steps[Answer]:
    """Answer `accepted` once the claim is durable and the approval it stands on is consumed; only then may it act.

    The same nonce gets the same answer. `cancel`: the execution does not want it any more; hand the task back.
    """
    yield [Ref(shard_of(row.execution), row.execution) for row in rows]
    answers: list[Answer] = []
    for row in rows:
        execution = tx.execution(row.execution)
        task = execution and tx.row("task", shard=execution.shard, execution=execution.id, address=row.address)
        answers.append(_begin(tx, row, execution, task) if execution and task else Answer.LEASE_LOST)
    return answers


def _begin(tx: Tx, row: Begin, execution: ExecutionRow, task: Row) -> Answer:
    if task["fence"] != row.fence:
        return Answer.LEASE_LOST
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
