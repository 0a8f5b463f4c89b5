"""What happens to a reservation while it lasts: prolonged, handed back, or cut short when its worker fell silent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core import states
from perdure.core.events import Kind
from perdure.core.ids import shard_of
from perdure.core.work import Answer, Held
from perdure.engine.complete import set_task, tell, whose
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Beats:
    """The heartbeats of one worker."""

    worker: str
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class HandBack:
    """Tasks that a worker returns without having begun them."""

    worker: str
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Shrink:
    """A worker's liveness connection closed: leave its leases only this long."""

    worker: str
    left_ms: int


@operation()
def beat(tx: Tx, rows: Sequence[Beats]) -> Steps[list[Answer]]:
    """Prolong leases; the fence does not change. A lost one is answered so, and one to be stopped as `cancel`.

    Touches single task rows in key order and reads executions, so it needs none of their locks.
    """
    yield ()
    items = [(row.worker, held) for row in rows for held in row.held]
    params = [
        {
            "shard": shard_of(held.execution),
            "execution": held.execution,
            "address": held.address,
            "fence": held.fence,
            "worker": worker,
            "now_ms": tx.now_ms,
        }
        for worker, held in items
    ]
    order = sorted(range(len(items)), key=lambda i: (params[i]["shard"], items[i][1].execution, items[i][1].address))
    updated = tx.each("prolong_task", [params[i] for i in order])
    answers = [Answer.LEASE_LOST] * len(items)
    for i, found in zip(order, updated, strict=True):
        if found:
            stopping = found[0]["execution_state"] == states.Execution.CANCELLING
            answers[i] = Answer.CANCEL if stopping else Answer.ACCEPTED
    at = iter(answers)
    return [[next(at) for _ in row.held] for row in rows]


@operation()
def hand_back(tx: Tx, rows: Sequence[HandBack]) -> Steps[list[Answer]]:
    """Put tasks that never began back on their queue at once; the attempt does not count."""
    yield [Ref(shard_of(held.execution), held.execution) for row in rows for held in row.held]
    return [[_hand_back(tx, held) for held in row.held] for row in rows]


def _hand_back(tx: Tx, held: Held) -> Answer:
    execution = tx.execution(held.execution)
    task = execution and tx.row("task", shard=execution.shard, execution=execution.id, address=held.address)
    if not execution or not task or task["fence"] != held.fence:
        return Answer.LEASE_LOST
    if not states.allowed(states.TASK_TABLE, task["state"], "hand_back"):
        return Answer.CONFLICT
    if execution.state == states.Execution.CANCELLING or execution.ended:
        set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "die"))
        tell(tx, execution, Kind.TASK_FAILED, held.address, {**whose(task), "error": "cancelled", "code": "cancelled"})
        return Answer.ACCEPTED
    ready = states.move(states.TASK_TABLE, task["state"], "hand_back")
    set_task(tx, execution, task, ready, attempt=task["attempt"] - 1)
    tx.append(execution, Kind.ATTEMPT_LOST, held.address, data={**whose(task), "why": "handed back by its worker"})
    return Answer.ACCEPTED


@operation()
def shrink(tx: Tx, rows: Sequence[Shrink]) -> Steps[int]:
    """Cut a worker's leases short; its next heartbeat restores them. Returns how many were cut."""
    yield ()
    return [tx.run("shrink_leases", worker=row.worker, until_ms=tx.now_ms + row.left_ms) for row in rows]
