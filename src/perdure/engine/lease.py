"""Reserve tasks for a worker. A reservation is not a start: it may go back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from perdure.core import codec, states
from perdure.core.codec import Json
from perdure.core.work import LeasedTask, LeaseRequest
from perdure.engine.allowances import Allowances
from perdure.engine.change import stopped, whose
from perdure.engine.complete import forgotten, key_forgotten
from perdure.engine.pick import pick_all
from perdure.engine.stored import damaged
from perdure.engine.tries import attempt_ms, out_of_time, watch_tries
from perdure.engine.uncertain import lose
from perdure.engine.wake import hold_back
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref, Row
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Lease:
    """One worker's wish, in its company's name."""

    company: str
    request: LeaseRequest

    @property
    def asks(self) -> object:
        """What it is a wish for, whoever asks and how often."""
        return self.company, self.request.lanes


class _Said(NamedTuple):
    """What the log has of a task, and its row has not."""

    args: dict[str, Json]
    key: str


_HOLDING_BACK = frozenset({states.Execution.PAUSED, states.Execution.STUCK})


def _keys(row: Lease) -> tuple[str, ...]:
    return (f"worker/{row.request.worker}",)


@operation(keys=_keys)
def lease(tx: Tx, rows: Sequence[Lease]) -> Steps[list[LeasedTask]]:
    """Reserve up to `slots` tasks each, within the limits of their queues, in the order that `pick` knows.

    The same nonce gets the same tasks again. Tasks of paused or stuck executions stay where they are, and so do calls
    that are equal to one of which nobody knows whether it acted, and those of paused queues.
    """
    again = [_again(tx, row) for row in rows]
    allowances = Allowances()
    picked = pick_all(tx, rows, again, allowances)
    if allowances.short:  # costs nothing where no queue has limits
        allowances.look(tx, {(row.company, lane.queue) for row in rows for lane in row.request.lanes})
        picked = pick_all(tx, rows, again, allowances)
    yield [Ref(task["shard"], task["execution"]) for tasks in picked for task in tasks]
    given = [_reserve(tx, row.request, tasks, allowances) for row, tasks in zip(rows, picked, strict=True)]
    allowances.settle(tx)
    return given


def _again(tx: Tx, row: Lease) -> list[Row]:
    return tx.rows("tasks_of_nonce", company=row.company, worker=row.request.worker, nonce=row.request.nonce)


def _reserve(tx: Tx, request: LeaseRequest, tasks: list[Row], allowances: Allowances) -> list[LeasedTask]:
    wanted = [task for task in tasks if _wanted(tx, task) and not _too_late(tx, task)]
    legible = [(task, said) for task in wanted if (said := _legible(tx, task)) is not None]
    updated = tx.each("lease_task", [_reservation(tx, request, task) for task, _ in legible])
    given = [(task, said, rows[0]) for (task, said), rows in zip(legible, updated, strict=True) if rows]
    for task, _, _ in given:
        watch_tries(tx, task)
        if task["state"] == states.Task.READY:
            allowances.start((task["company"], task["queue"]))
    return [_leased(task, said, row, request.lease_ms, tx.now_ms) for task, said, row in given]


def _wanted(tx: Tx, task: Row) -> bool:
    """Look again under the lock: its execution may have been paused since the task was picked."""
    execution = tx.execution(task["execution"])
    if execution is None or task["state"] != states.Task.READY:
        return execution is not None
    if out_of_time(task, tx.now_ms):  # the sweep is about to end it
        return False
    return execution.state not in _HOLDING_BACK and not stopped(execution, task)


def _too_late(tx: Tx, task: Row) -> bool:
    """Lose a task that was tried before and whose key is forgotten by now: trying it again could act twice."""
    if task["state"] != states.Task.READY or not key_forgotten(task, tx.now_ms):
        return False
    execution = tx.execution(task["execution"])
    now = execution and tx.row("task", shard=task["shard"], execution=task["execution"], address=task["address"])
    if execution and now and now["fence"] == task["fence"] and now["state"] == states.Task.READY:
        lose(tx, execution, now, forgotten(now, "it was tried before"), whose(now))
    return True


def _legible(tx: Tx, task: Row) -> _Said | None:
    """Read what was said at its scheduling. If that was damaged, this one is not given, and no other suffers: its
    execution sticks as soon as nobody holds it."""
    try:
        said = codec.decode(task["data"])
        return _Said(said["args"], said["key"])
    except (ValueError, TypeError, KeyError) as error:
        execution = tx.execution(task["execution"])
        if execution is not None and execution.ownership == states.Ownership.PARKED:
            why = damaged(f"what was said of task {task['address']!r} at its scheduling", error).message
            hold_back(tx, execution, "stick", states.Reason.POISON, why)
        return None


def _reservation(tx: Tx, request: LeaseRequest, task: Row) -> dict[str, Any]:
    return {
        "shard": task["shard"],
        "execution": task["execution"],
        "address": task["address"],
        "fence": task["fence"],
        "state": task["state"],
        "raised": int(task["state"] == states.Task.READY),
        "worker": request.worker,
        "nonce": request.nonce,
        "now_ms": tx.now_ms,
        "lease_ms": request.lease_ms,
        "lease_until_ms": tx.now_ms + request.lease_ms,
        "limited": task["queue_limited"],
    }


def _leased(task: Row, said: _Said, updated: Row, lease_ms: int, now_ms: int) -> LeasedTask:
    return LeasedTask(
        execution=task["execution"],
        address=task["address"],
        agent=task["agent"],
        tool=task["tool"],
        queue=task["queue"],
        args=said.args,
        delivery=task["delivery"],
        key=said.key,
        attempt=updated["attempt"],
        fence=updated["fence"],
        lease_ms=lease_ms,
        timeout_ms=attempt_ms(task, now_ms),
        saved=task["saved"],
    )
