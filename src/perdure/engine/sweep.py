"""Notice what nobody reports: leases that ran out, timers that are due, an owner that is gone. Bounded per pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core import states
from perdure.core.delivery import Delivery
from perdure.core.events import Kind
from perdure.core.ids import shard_of
from perdure.core.work import Failure
from perdure.engine.change import set_task, tell, unwanted, whose
from perdure.engine.complete import LEASE_EXPIRED, fail_attempt, forgotten, key_forgotten
from perdure.engine.due import Pick, Sweep, due, orphaned
from perdure.engine.tries import out_of_time
from perdure.engine.uncertain import lose
from perdure.engine.wake import let_go, put_ready, shut_out, wake
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

LOCAL_WORKER = "local/"
"""Prefix of the ids of workers that live inside the store's owner, and die with it."""


TIMERS = Pick("timers_due")
SILENT_WORKERS = Pick("tasks_expired")
SILENT_HOLDERS = Pick("owned_expired")

_WHENEVER_MS = 2**63 - 1
"""After the end of every lease."""


@dataclass(frozen=True, slots=True)
class Renew:
    """A server's heartbeat for everything it owns."""

    holder: str
    lease_ms: int


@operation()
def tell_time(tx: Tx, rows: Sequence[None]) -> Steps[int]:
    """Return the store's clock, which judges leases and timers."""
    yield ()
    return [tx.now_ms for _ in rows]


@operation()
def renew(tx: Tx, rows: Sequence[Renew]) -> Steps[dict[str, int]]:
    """Prolong all leases of a holder; return the fence of each execution that it still owns."""
    yield ()
    results: list[dict[str, int]] = []
    for row in rows:
        tx.run("renew_owned", holder=row.holder, lease_until_ms=tx.now_ms + row.lease_ms)
        results.append({one["execution"]: one["fence"] for one in tx.rows("owned_by", holder=row.holder)})
    return results


@dataclass(frozen=True, slots=True)
class Drop:
    """Executions that a holder owns in the store and does not want: it is leaving, or the claim's answer was lost."""

    holder: str
    executions: tuple[str, ...] = ()
    """All of the holder's if empty."""


@operation()
def drop(tx: Tx, rows: Sequence[Drop]) -> Steps[int]:
    """Put a holder's executions back on the ready list at once, as abandoned."""
    found = [
        one
        for row in rows
        for one in tx.rows("owned_by", holder=row.holder)
        if not row.executions or one["execution"] in row.executions
    ]
    yield [Ref(shard_of(one["execution"]), one["execution"]) for one in found]
    for one in found:
        execution = tx.execution(one["execution"])
        if execution is not None and execution.fence == one["fence"]:
            abandon(tx, execution)
    return [len(found)] + [0] * (len(rows) - 1)


@operation()
def expire_owned(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
    """Put executions whose holder fell silent back on the ready list. The fence rises only at the next claim."""
    found = due(tx, rows, SILENT_HOLDERS)
    yield [Ref(one["shard"], one["execution"]) for one in found]
    for one in found:
        execution = tx.execution(one["execution"])
        lease = tx.row("owner_of", shard=one["shard"], execution=one["execution"])
        if execution is not None and lease is not None and lease["lease_until_ms"] < tx.now_ms:  # else: renewed
            abandon(tx, execution)
    return [len(found)] + [0] * (len(rows) - 1)


def abandon(tx: Tx, execution: ExecutionRow) -> None:
    """Take an execution from a holder that let go of nothing."""
    if execution.ownership != states.Ownership.OWNED:
        return
    let_go(tx, execution)
    if execution.may("claim"):
        execution.ownership = states.Ownership.READY
        put_ready(tx, execution, abandoned=True)
    else:  # paused meanwhile
        shut_out(tx, execution)


@operation()
def expire_tasks(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
    """End attempts whose worker fell silent: those not begun go back, begun ones become uncertain."""
    found = due(tx, rows, SILENT_WORKERS)
    yield [Ref(one["shard"], one["execution"]) for one in found]
    for one in found:
        _expire(tx, one, lost_before_ms=tx.now_ms)
    return [len(found)] + [0] * (len(rows) - 1)


def _expire(tx: Tx, found: Row, *, lost_before_ms: int) -> None:
    """End an attempt unless, now that it is locked, it is over, somebody else's, or was prolonged."""
    execution = tx.execution(found["execution"])
    task = execution and tx.row("task", shard=found["shard"], execution=found["execution"], address=found["address"])
    if not execution or not task or task["fence"] != found["fence"] or task["state"] not in states.TASK_HELD:
        return
    if task["lease_until_ms"] >= lost_before_ms:
        return
    why = f"its worker fell silent and the lease ran out, on try {task['attempt']} of {task['max_attempts']}"
    if task["state"] != states.Task.LEASED or _spent(tx, task) or unwanted(execution, task):
        fail_attempt(tx, execution, task, Failure(LEASE_EXPIRED, why))
    elif key_forgotten(task, tx.now_ms):
        lose(tx, execution, task, forgotten(task, why), whose(task), silent=True)
    else:
        set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "hand_back"))
        if task["delivery"] != Delivery.AT_MOST_ONCE:
            scope = {"shard": execution.shard, "execution": execution.id, "address": task["address"]}
            tx.later("keep_holder", **scope, worker=task["worker"])
        tell(tx, execution, Kind.ATTEMPT_LOST, task["address"], {**whose(task), "why": why})


def _spent(tx: Tx, task: Row) -> bool:
    tried = task["delivery"] != Delivery.AT_MOST_ONCE and task["attempt"] >= task["max_attempts"]
    return tried or out_of_time(task, tx.now_ms)


@operation()
def fire_timers(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
    """Fire due timers, once each and never early by the store's clock."""
    found = due(tx, rows, TIMERS)
    yield [Ref(one["shard"], one["execution"]) for one in found]
    for one in found:
        execution = tx.execution(one["execution"])
        if execution is None:
            raise orphaned("timer", one)
        scope = {"shard": one["shard"], "execution": one["execution"], "address": one["address"]}
        if tx.run("delete_timer", **scope) and not execution.ended:
            tx.append(execution, Kind.TIMER_FIRED, one["address"])
            wake(tx, execution)
    return [len(found)] + [0] * (len(rows) - 1)


@operation()
def take_over(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
    """End all that the former owner of a SQLite file held itself. Its lock is ours, which proves it gone."""
    owned = tx.rows("owned_inside", prefix=f"{LOCAL_WORKER}%")
    held = tx.rows("tasks_held_by_prefix", prefix=f"{LOCAL_WORKER}%")
    yield [Ref(one["shard"], one["execution"]) for one in [*owned, *held]]
    for execution in filter(None, [tx.execution(one["execution"]) for one in owned]):
        abandon(tx, execution)
    for one in held:
        scope = {name: one[name] for name in ("shard", "execution", "address")}
        tx.run("end_lease", **scope, now_ms=tx.now_ms)  # nobody is left who could beat, so a ruling need not wait
        _expire(tx, one, lost_before_ms=_WHENEVER_MS)
    return [len(owned) + len(held)] + [0] * (len(rows) - 1)
