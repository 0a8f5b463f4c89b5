"""What happens to a reservation while it lasts: prolonged, handed back, or cut short when its worker fell silent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core import states
from perdure.core.events import Kind
from perdure.core.ids import shard_of
from perdure.core.work import Answer, Held
from perdure.engine.change import set_task, tell, unwanted, whose
from perdure.engine.task import held_tasks, ref_of
from perdure.engine.tries import out_of_time, overdue
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Beats:
    """The heartbeats of one worker."""

    company: str
    worker: str
    held: tuple[Held, ...]

    @property
    def size(self) -> int:
        return sum(len(one.saved or "") for one in self.held)


@dataclass(frozen=True, slots=True)
class HandBack:
    """Tasks that a worker returns without having begun them."""

    company: str
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Shrink:
    """A worker's liveness connection closed: leave its leases only this long."""

    company: str
    worker: str
    left_ms: int


@operation()
def beat(tx: Tx, rows: Sequence[Beats]) -> Steps[list[Answer]]:
    """Prolong leases; the fence does not change. A lost one is answered so, and one to be stopped as `cancel`.

    Touches single task rows in key order and reads executions, so it needs none of their locks.
    """
    yield ()
    items = [(row, held) for row in rows for held in row.held]
    params = [
        {
            "shard": shard_of(held.execution),
            "execution": held.execution,
            "address": held.address,
            "fence": held.fence,
            "company": row.company,
            "worker": row.worker,
            "progress": held.progress,
            "saved": held.saved,
            "now_ms": tx.now_ms,
        }
        for row, held in items
    ]
    order = sorted(range(len(items)), key=lambda i: (params[i]["shard"], items[i][1].execution, items[i][1].address))
    updated = tx.each("prolong_task", [params[i] for i in order])
    answers = [Answer.LEASE_LOST] * len(items)
    for i, found in zip(order, updated, strict=True):
        if found:
            answers[i] = Answer.CANCEL if _unwanted(found[0]) else Answer.ACCEPTED
    at = iter(answers)
    return [[next(at) for _ in row.held] for row in rows]


def _unwanted(beaten: Row) -> bool:
    """As `change.unwanted`, of what a heartbeat reads without a lock."""
    if beaten["probe_of"] is not None:
        return False
    if beaten["execution_state"] == states.Execution.CANCELLING:
        return beaten["cancel_seq"] is None or beaten["scheduled_seq"] < beaten["cancel_seq"]
    return beaten["execution_state"] in states.TERMINAL


_BACK = frozenset({states.Task.READY, states.Task.DEAD})
"""What a task is once it was handed back."""


def _keys(row: HandBack) -> tuple[str, ...]:
    return tuple(f"task/{held.execution}/{held.address}" for held in row.held)


@operation(keys=_keys)
def hand_back(tx: Tx, rows: Sequence[HandBack]) -> Steps[list[Answer]]:
    """Put tasks that never began back on their queue at once; the attempt does not count.

    One that nobody wants any more, or whose deadline for all tries has passed, has failed instead.
    """
    yield [ref_of(held) for row in rows for held in row.held]
    found = iter(held_tasks(tx, [(row.company, held) for row in rows for held in row.held]))
    return [[_hand_back(tx, *one) if (one := next(found)) else Answer.LEASE_LOST for _ in row.held] for row in rows]


def _hand_back(tx: Tx, execution: ExecutionRow, task: Row) -> Answer:
    if not states.allowed(states.TASK_TABLE, task["state"], "hand_back"):
        return Answer.ALREADY_ACCEPTED if task["state"] in _BACK else Answer.CONFLICT
    if unwanted(execution, task):
        return _die(tx, execution, task, "cancelled", "cancelled")
    if out_of_time(task, tx.now_ms):  # the sweep at its deadline has been by, while it was held
        return _die(tx, execution, task, overdue(task, "handed back by its worker"), "deadline")
    ready = states.move(states.TASK_TABLE, task["state"], "hand_back")
    set_task(tx, execution, task, ready, attempt=task["attempt"] - 1)
    if not execution.ended:  # else it was a probe, of which an ended log says nothing
        facts = {**whose(task), "why": "handed back by its worker"}
        tx.append(execution, Kind.ATTEMPT_LOST, task["address"], data=facts)
    return Answer.ACCEPTED


def _die(tx: Tx, execution: ExecutionRow, task: Row, error: str, code: str) -> Answer:
    set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "die"))
    tell(tx, execution, Kind.TASK_FAILED, task["address"], {**whose(task), "error": error, "code": code})
    return Answer.ACCEPTED


@operation()
def shrink(tx: Tx, rows: Sequence[Shrink]) -> Steps[int]:
    """Cut a worker's leases short; its next heartbeat restores them. Returns how many were cut."""
    yield ()
    return [
        tx.run("shrink_leases", company=row.company, worker=row.worker, until_ms=tx.now_ms + row.left_ms)
        for row in rows
    ]
