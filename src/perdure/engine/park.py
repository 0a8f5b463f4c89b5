"""Let go of an execution: because it waits, because it ended, or because going on would be wrong.

Each is conditional on the fence and on the last `seq` seen: news that arrived in between is returned instead, to be
looked at before trying again. So no message, decision or result is ever slept through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from perdure.core import states
from perdure.core.events import Kind
from perdure.engine.children import leave_children, parents_of, refs_of, tell_parent
from perdure.engine.inline import leave_claims
from perdure.engine.record import News, held_by, lost, news
from perdure.engine.wake import hold_back, let_go, mark_of
from perdure.errors import LeaseLost
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Park:
    """Everything it waits for is outside."""

    ref: Ref
    fence: int
    seen: int
    active_ms: int
    """How long it was owned since the last such report; added to the execution's sum."""
    company: str = ""
    """Of the worker that says so; empty for a server, which speaks for all."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Its code returned, failed, or was cancelled."""

    ref: Ref
    fence: int
    seen: int
    active_ms: int
    event: Literal["complete", "fail", "end"]
    data: str
    """JSON text of the terminal event."""
    company: str = ""

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Halt:
    """Going on would be wrong: paused for a key or a quota, or stuck."""

    ref: Ref
    fence: int
    event: Literal["pause", "stick"]
    reason: str
    message: str
    company: str = ""


@dataclass(frozen=True, slots=True)
class Released:
    """Nobody owns it any more."""

    again: bool = False
    """It was let go of before, under the same fence: the first answer was lost."""


@dataclass(frozen=True, slots=True)
class StillHeld:
    """It cannot end yet: cancelled while workers hold tasks of it, or paused. Park; reports, or a resume, wake it."""


_TERMINAL_KIND = {"complete": Kind.COMPLETED, "fail": Kind.FAILED, "end": Kind.CANCELLED}


@operation()
def park(tx: Tx, rows: Sequence[Park]) -> Steps[Released | News | LeaseLost]:
    """Park, unless there is news."""
    yield [row.ref for row in rows]
    results: list[Released | News | LeaseLost] = []
    for row in rows:
        execution = held_by(tx, row)
        if execution is None:
            results.append(lost(row.ref))
        elif _let_go_before(execution):
            results.append(Released(again=True))
        elif execution.next_seq - 1 != row.seen:
            results.append(news(tx, execution, row.seen))
        else:
            execution.move("park")
            execution.active_ms += row.active_ms
            execution.kept_by = mark_of(_holder(tx, execution))
            let_go(tx, execution)
            results.append(Released())
    return results


def _holder(tx: Tx, execution: ExecutionRow) -> str:
    """Return the worker that has the live coroutine; servers' own are few, and found without a name."""
    owner = tx.row("owner_of", shard=execution.shard, execution=execution.id) if execution.lane else None
    return owner["holder"] if owner is not None else ""


@operation()
def finish(tx: Tx, rows: Sequence[Finish]) -> Steps[Released | StillHeld | News | LeaseLost]:
    """End an execution, unless there is news. The last event is final; a child's parent is told in the same breath."""
    parents = parents_of(tx, [row.ref for row in rows])
    yield [*(row.ref for row in rows), *refs_of(parents)]
    results: list[Released | StillHeld | News | LeaseLost] = []
    for row in rows:
        execution = held_by(tx, row)
        if execution is None or (_let_go_before(execution) and not execution.ended):
            results.append(lost(row.ref))
        elif execution.ended:
            results.append(Released(again=True))
        elif execution.next_seq - 1 != row.seen:
            results.append(news(tx, execution, row.seen))
        else:
            results.append(_end(tx, execution, row, parents))
    leave_children(tx, [one for row in rows if (one := tx.execution(row.ref.execution)) is not None and one.ended])
    return results


def _end(tx: Tx, execution: ExecutionRow, row: Finish, parents: Mapping[str, Row]) -> Released | StillHeld:
    scope = {"shard": execution.shard, "execution": execution.id}
    cancelled = execution.state == states.Execution.CANCELLING
    event = "end" if cancelled else row.event  # however its code ended: the cancel came first
    if not execution.may(event):  # paused: it ends when it is resumed
        return StillHeld()
    if event != "complete":
        leave_claims(tx, execution)
    if cancelled and tx.row("held_task", **scope) is not None:
        return StillHeld()
    if event != "complete":
        tx.run("kill_ready_tasks", **scope, now_ms=tx.now_ms)
        tx.run("cancel_waitpoints", **scope)
        tx.run("delete_timers", **scope)
    execution.move(event)
    execution.reason = None
    execution.active_ms += row.active_ms
    execution.finished_ms = tx.now_ms
    data = "{}" if cancelled else row.data
    tx.append(execution, _TERMINAL_KIND[event], data=data)
    tell_parent(tx, execution, parents, data)
    let_go(tx, execution)
    return Released()


@operation()
def halt(tx: Tx, rows: Sequence[Halt]) -> Steps[Released | LeaseLost]:
    """Pause or stick an owned execution, saying why. Needs no look at news: nothing is thrown away.

    One that was to be cancelled is cancelled instead: whatever it could not go on with, it need not.
    """
    parents = parents_of(tx, [row.ref for row in rows])
    yield [*(row.ref for row in rows), *refs_of(parents)]
    results: list[Released | LeaseLost] = []
    for row in rows:
        execution = held_by(tx, row)
        if execution is None:
            results.append(lost(row.ref))
            continue
        if _let_go_before(execution):
            results.append(Released(again=True))
            continue
        if execution.state == states.Execution.CANCELLING:
            end_cancelled(tx, execution, parents)
            results.append(Released())
            continue
        hold_back(tx, execution, row.event, row.reason, row.message)
        let_go(tx, execution)
        results.append(Released())
    return results


def end_cancelled(tx: Tx, execution: ExecutionRow, parents: Mapping[str, Row]) -> None:
    """End a cancelled execution whose code cannot, or need not, run any more; while workers hold tasks of it, park it:
    reports wake it. `parents` were looked up, and locked, with it."""
    if isinstance(_end(tx, execution, Finish(execution.ref, execution.fence, 0, 0, "end", "{}"), parents), StillHeld):
        execution.move("park")
        let_go(tx, execution)
    else:
        leave_children(tx, [execution])  # those that its cleanup had begun


def _let_go_before(execution: ExecutionRow) -> bool:
    return execution.ownership != states.Ownership.OWNED
