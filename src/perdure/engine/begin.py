"""Commit the claim of an `at_most_once` task, just before its body starts. Never released, never given twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core import states
from perdure.core.delivery import Delivery
from perdure.core.events import Kind
from perdure.core.work import Answer, Begin
from perdure.engine.approvals import may_begin
from perdure.engine.change import set_task, stopped, tell, whose
from perdure.engine.task import held_tasks, ref_of
from perdure.engine.uncertain import log_of, receipt_of, serve
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

_NO_BEGIN = frozenset({states.Execution.PAUSED, states.Execution.STUCK})
_UNDER_WAY = frozenset({states.Task.LEASED, states.Task.BEGUN, states.Task.UNCERTAIN})


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

    The same nonce gets the same answer. `cancel`: the execution does not want it, or not now; hand the task back. A
    task of another delivery makes no claim: its worker asks because of its intent.
    """
    yield [ref_of(row.begin) for row in rows]
    found = held_tasks(tx, [(row.company, row.begin) for row in rows])
    return [_begin(tx, row.begin, *held) if held else Answer.LEASE_LOST for row, held in zip(rows, found, strict=True)]


def _begin(tx: Tx, row: Begin, execution: ExecutionRow, task: Row) -> Answer:
    if task["state"] == states.Task.BEGUN:
        return Answer.ALREADY_ACCEPTED if task["begin_nonce"] == row.nonce else Answer.CONFLICT
    if not states.allowed(states.TASK_TABLE, task["state"], "begin") or execution.ended:
        return Answer.LEASE_LOST
    if execution.state in _NO_BEGIN or stopped(execution, task):
        return Answer.CANCEL
    known = _known_act(tx, row, execution, task)
    if known is not None:
        return known
    return _claim(tx, row, execution, task) if task["delivery"] == Delivery.AT_MOST_ONCE else Answer.ACCEPTED


def _claim(tx: Tx, row: Begin, execution: ExecutionRow, task: Row) -> Answer:
    scope = {"shard": execution.shard, "execution": execution.id, "address": row.address}
    twin = {name: task[name] for name in ("execution", "address", "tool", "digest", "scheduled_seq")}
    if tx.row("twin_in_doubt", **twin) is not None:
        return Answer.CANCEL  # it goes back to its queue, and is held there
    if not may_begin(tx, execution, task):
        return Answer.CONFLICT
    tx.run("begin_task", **scope, begin_nonce=row.nonce, now_ms=tx.now_ms)
    facts = {"claim": task["claims"] + 1, "worker": task["worker"], "attempt": task["attempt"], "fence": task["fence"]}
    tx.append(execution, Kind.TASK_BEGUN, row.address, data=facts)
    return Answer.ACCEPTED


def _known_act(tx: Tx, row: Begin, execution: ExecutionRow, task: Row) -> Answer | None:
    """Keep the author's own identity of the act. One that was done before is served its receipt; one that is under way
    is waited for; one that was given up is not begun by another name. None: go on."""
    intent = row.intent or task["intent"]
    if intent is None:
        return None
    scope = {"shard": execution.shard, "execution": execution.id, "address": row.address}
    tx.run("set_intent", **scope, intent=intent)
    twins = tx.rows("twins_by_intent", execution=execution.id, address=row.address, tool=task["tool"], intent=intent)
    task = {**task, "intent": intent}
    for twin in twins:
        if twin["state"] == states.Task.DONE:
            serve(tx, execution, task, twin["address"], receipt_of(tx, execution, twin["address"]))
            return Answer.LEASE_LOST
        if _given_up(tx, execution, twin):
            _refuse(tx, execution, task, twin["address"])
            return Answer.LEASE_LOST
    return Answer.CANCEL if any(_goes_first(twin, task) for twin in twins) else None


def _goes_first(twin: Row, task: Row) -> bool:
    if twin["state"] == states.Task.READY:
        return twin["scheduled_seq"] < task["scheduled_seq"]
    return twin["state"] in _UNDER_WAY


def _given_up(tx: Tx, execution: ExecutionRow, twin: Row) -> bool:
    if twin["state"] != states.Task.DEAD:
        return False
    log = log_of(tx, execution, twin["address"])
    rulings = [data["ruling"] for _, kind, data in log if kind is Kind.EFFECT_RULED]
    return rulings[-1:] == ["give_up"]


def _refuse(tx: Tx, execution: ExecutionRow, task: Row, first: str) -> None:
    set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "die"))
    error = f"the same act was begun at {first!r}, and nobody found out whether it was done: it is not begun again"
    tell(tx, execution, Kind.TASK_FAILED, task["address"], {**whose(task), "error": error, "code": "given_up"})
