"""Append what an execution's code asked for and what its own steps gave. Fenced; the answer brings others' news."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, assert_never

from perdure.core import codec, states
from perdure.core.delivery import Delivery
from perdure.core.events import ASKED, Kind
from perdure.core.ids import action_key
from perdure.core.items import (
    ActInRoom,
    AwaitSignal,
    BeginStep,
    EndStep,
    HoldAct,
    Item,
    OfferStep,
    OpenApproval,
    OpenToken,
    ScheduleTask,
    SetTimer,
    SimulatedStep,
    StartChild,
    StepDone,
)
from perdure.core.queues import ahead_ms
from perdure.core.rules import rules_to_text
from perdure.engine.approvals import may_schedule, open_approval, refuse_call
from perdure.engine.children import start_child
from perdure.engine.forked import offer, schedule, simulated_step
from perdure.engine.inline import begin_step, end_step
from perdure.engine.token import open_token
from perdure.errors import InternalError, LeaseLost
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Params, Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Record:
    """What one holder wants appended to one execution, in order."""

    ref: Ref
    fence: int
    seen: int
    """The last `seq` that the holder has handed to the code, or has waiting for it."""
    items: tuple[Item, ...]
    company: str = ""
    """Of the worker that says so; empty for a server, which speaks for all."""
    previewed: bool = False
    """Whether the items after the first were asked for by code that had been shown the first, and nothing else unseen:
    where something unseen comes before it, they are left out."""

    @property
    def size(self) -> int:
        return sum(map(_size, self.items))


def _size(item: Item) -> int:
    match item:
        case StepDone():
            return len(item.data)
        case EndStep() | SimulatedStep():
            return len(item.value)
        case StartChild():
            return len(item.input)
        case ScheduleTask() | OpenApproval() | BeginStep() | OfferStep():
            return codec.weight(item.args)
        case _:
            return 0


class Said(Protocol):
    """Whatever a holder says about an execution."""

    @property
    def ref(self) -> Ref: ...
    @property
    def fence(self) -> int: ...
    @property
    def company(self) -> str: ...


class News(NamedTuple):
    """All events above `seen`, the holder's own and others', in order and without a gap."""

    events: Sequence[Params | Row]


_OF_CLAIMS = (BeginStep, EndStep)


def _keys(row: Record) -> tuple[str, ...]:
    return tuple(
        f"{'task' if isinstance(item, _OF_CLAIMS) else 'address'}/{row.ref.execution}/{item.address}"
        for item in row.items
    )


@operation(keys=_keys)
def record(tx: Tx, rows: Sequence[Record]) -> Steps[News | LeaseLost]:
    """Append the items, with the rows that belong to them, if the fence is still the holder's.

    The same items again change nothing. A tool call by a holder that had not seen a cancel yet is recorded dead.
    """
    yield [row.ref for row in rows]
    results: list[News | LeaseLost] = []
    tasks: list[dict[str, Any]] = []
    for row in rows:
        execution = held_by(tx, row)
        if execution is None or execution.ended:
            _take_late(tx, row)
            results.append(lost(row.ref))
            continue
        unseen = _unseen(tx, execution, row.seen)
        recorded = {event["address"] for event in unseen if event["kind"] in ASKED}
        wanted = all(event["kind"] != Kind.CANCEL_REQUESTED for event in unseen)
        overtaken = row.previewed and bool(unseen) and unseen[0]["address"] != row.items[0].address
        for item in row.items[:1] if overtaken else row.items:
            # Else it was taken before, and the answer was lost.
            if item.address not in recorded or isinstance(item, EndStep):
                _append(tx, execution, item, tasks, wanted=wanted)
        results.append(news(tx, execution, row.seen))
    tx.many("insert_task", tasks)
    return results


def _unseen(tx: Tx, row: ExecutionRow, seen: int) -> Sequence[Params | Row]:
    return () if row.next_seq - 1 == seen else news(tx, row, seen).events


def news(tx: Tx, row: ExecutionRow, seen: int) -> News:
    """Return what happened above `seen`, reading only if somebody else wrote in between."""
    own = tx.appended(row.id, seen)
    if len(own) == row.next_seq - 1 - seen:
        return News(own)
    stored = tx.rows("events_after", shard=row.shard, execution=row.id, after=seen, limit=row.next_seq)
    return News([*stored, *own])


def held_by(tx: Tx, said: Said) -> ExecutionRow | None:
    """Return the locked execution that a holder speaks of, if its fence is still this one.

    Workers hold durable functions of their own company and nothing else.
    """
    execution = tx.execution(said.ref.execution)
    if execution is None or execution.fence != said.fence:
        return None
    if said.company and (execution.company != said.company or not execution.lane):
        return None
    return execution


def lost(ref: Ref) -> LeaseLost:
    """Say that somebody else owns an execution now."""
    return LeaseLost(f"execution {ref.execution}: its fence moved on; somebody else owns it now.")


def _append(tx: Tx, row: ExecutionRow, item: Item, tasks: list[dict[str, Any]], *, wanted: bool) -> None:
    match item:
        case StepDone():
            tx.append(row, Kind.STEP_RECORDED, item.address, item.digest, item.data)
        case ScheduleTask():
            tasks.append(_schedule(tx, row, item, wanted=wanted))
        case OpenApproval():
            open_approval(tx, row, item)
        case SetTimer():
            due_ms = tx.now_ms + item.delay_ms
            tx.append(row, Kind.TIMER_SET, item.address, item.digest, {"due_ms": due_ms})
            tx.run("insert_timer", shard=row.shard, execution=row.id, address=item.address, due_ms=due_ms)
        case OpenToken():
            open_token(tx, row, item)
        case AwaitSignal():
            tx.append(row, Kind.WAIT_OPENED, item.address, item.digest, {"kind": "signal", "name": item.name})
        case StartChild():
            start_child(tx, row, item, wanted=wanted)
        case BeginStep():
            begin_step(tx, row, item, wanted=wanted)
        case EndStep():
            end_step(tx, row, item, holds=True)
        case OfferStep():
            tasks.extend(offer(tx, row, item))
        case SimulatedStep():
            tasks.append(simulated_step(tx, row, item))
        case ActInRoom() | HoldAct():
            raise InternalError(f"{item.address}: acts in rooms are recorded by `act_in_room`")
        case _:
            assert_never(item)


def _take_late(tx: Tx, row: Record) -> None:
    """Take what a holder that lost the execution still knows of claims of its own: it is fenced by their nonces."""
    execution = tx.execution(row.ref.execution)
    if execution is None or (row.company and execution.company != row.company):
        return
    for item in row.items:
        if isinstance(item, EndStep):
            end_step(tx, execution, item, holds=False)


def _schedule(tx: Tx, row: ExecutionRow, item: ScheduleTask, *, wanted: bool) -> dict[str, Any]:
    facts, task = _task_facts(row, item), _task_row(row, item, tx.now_ms)
    if row.origin and wanted and item.delivery != Delivery.REPEATABLE:
        return schedule(tx, row, item, facts, task)
    may = wanted and may_schedule(tx, row, item)
    seq = tx.append(row, Kind.TASK_SCHEDULED, item.address, item.digest, facts)
    if wanted and not may:
        refuse_call(tx, row, item)
    tx.announce("tasks", f"{row.company}/{item.queue}")
    return {**task, "scheduled_seq": seq, "state": _state(may)}


def _state(wanted: bool) -> states.Task:
    return states.Task.READY if wanted else states.Task.DEAD


def _task_facts(row: ExecutionRow, item: ScheduleTask) -> dict[str, Any]:
    return {
        "tool": item.tool,
        "args": item.args,
        "queue": item.queue,
        "delivery": str(item.delivery),  # an enum would take the slow way through `encode`
        "key": action_key(row.id, item.address),
        "max_attempts": item.max_attempts,
        "timeout_ms": item.timeout_ms,
        "approval": item.approval,
    }


def _task_row(row: ExecutionRow, item: ScheduleTask, now_ms: int) -> dict[str, Any]:
    return {
        "shard": row.shard,
        "execution": row.id,
        "address": item.address,
        "company": row.company,
        "agent": item.agent,
        "tool": item.tool,
        "queue": item.queue,
        "delivery": item.delivery,
        "max_attempts": item.max_attempts,
        "pause_ms": item.rules.pause_ms,
        "rules": rules_to_text(item.rules),
        "timeout_ms": item.timeout_ms,
        "approval": item.approval,
        "digest": codec.digest(item.tool, item.args),
        "intent": item.intent,
        "ahead_ms": ahead_ms(row.priority),
        "limit_key": row.limit_key,
        "now_ms": now_ms,
    }
