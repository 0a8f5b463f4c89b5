"""What a fork may do past its prefix: take the origin's result, run a simulation, or wait for a person.

A fork acts on the world only where a person said so, after it was held at that very step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from perdure.core import codec, states
from perdure.core.codec import Json
from perdure.core.delivery import Delivery, simulated_tool, simulation_tool
from perdure.core.events import ASKED, Event, Kind
from perdure.core.ids import shard_of
from perdure.core.items import OfferStep, ScheduleTask, SimulatedStep
from perdure.engine.approvals import may_schedule, refuse_call
from perdure.engine.inline_task import inline_facts, inline_task
from perdure.engine.query import events_of
from perdure.store.protocol import Params, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

_NOBODY: Mapping[str, Json] = {"attempt": 0, "worker": None, "started_ms": None}
"""Who ran what nobody ran here."""


@dataclass(frozen=True, slots=True)
class Told:
    """How a step of the origin ended, which the fork takes as its own."""

    kind: Kind
    data: Mapping[str, Json]

    @property
    def state(self) -> states.Task:
        return states.Task.DONE if self.kind is Kind.TASK_COMPLETED else states.Task.DEAD


def ended(events: Iterable[Event]) -> Told | None:
    """Return what a task came to, from all that a log says at its address; None: it is not known, or not over."""
    told: Told | None = None
    for event in events:
        match event.kind:
            case Kind.TASK_COMPLETED | Kind.TASK_FAILED:
                told = Told(event.kind, event.data)
            case Kind.EFFECT_RULED if event.data["ruling"] == "happened":
                told = Told(Kind.TASK_COMPLETED, {**_NOBODY, "value": event.data.get("value")})
            case Kind.EFFECT_RULED if event.data["ruling"] == "give_up":
                error = f"given up by {event.data.get('by') or 'a person'}: nobody found out whether it was done"
                told = Told(Kind.TASK_FAILED, {**_NOBODY, "error": error, "code": "given_up"})
            case Kind.EFFECT_CONTRADICTED:
                continue
            case _:
                told = None
    return told


def schedule(tx: Tx, row: ExecutionRow, item: ScheduleTask, facts: dict[str, Any], task: dict[str, Any]) -> Any:
    """Append a call of a tool that acts, and return its row: with the origin's result, for a simulation, or held.

    `facts` and `task` are what a run that is no fork would write.
    """
    told = _of_origin(tx, row, item.address, item.digest)
    simulated = told is None and item.rules.simulate
    may = told is not None or simulated or may_schedule(tx, row, item)
    marked = {**facts, "simulated": True} if simulated else facts
    seq = tx.append(row, Kind.TASK_SCHEDULED, item.address, item.digest, marked)
    task = {**task, "scheduled_seq": seq, "state": states.Task.READY}
    if told is not None:
        _take(tx, row, item.address, told)
        return {**task, "state": told.state}
    if not may:
        refuse_call(tx, row, item)
        return {**task, "state": states.Task.DEAD}
    tx.announce("tasks", f"{row.company}/{item.queue}")
    if simulated:
        return as_simulation(task)
    if item.approval is None:  # else a person has just said yes to this very call, in this fork
        hold(tx, row, item.tool, item.address)
    return task


def as_simulation(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a call of which the simulation is run: on a lane of its own, and as often as it takes."""
    return {**task, "tool": simulation_tool(simulated_tool(task["tool"])), "delivery": Delivery.REPEATABLE}


def offer(tx: Tx, row: ExecutionRow, item: OfferStep) -> list[dict[str, Any]]:
    """Answer whether a step may act that its holder would run itself; return the task's row where it makes one.

    An event at its address answers it: the origin's result. One that holds the fork at the step says no. Neither: yes.
    """
    if not row.origin:
        return []
    origin = shard_of(row.origin)
    at = events_of(tx.rows("events_at", shard=origin, execution=row.origin, address=item.address))
    asked = next((event for event in at if event.kind in ASKED), None)
    if asked is not None and asked.digest == item.digest and (answer := _answer(asked, at)) is not None:
        return _settle(tx, row, item, asked, answer)
    if item.simulated or permitted(tx, row, item.step):
        return []
    if row.state == states.Execution.CANCELLING:
        return _refuse(tx, row, item)
    hold(tx, row, item.name, item.step)
    return []


def permitted(tx: Tx, row: ExecutionRow, step: str) -> bool:
    """Say whether a person let the fork act at this step: it was held there, and resumed since; or what became of an
    earlier try of its own was ruled over so."""
    held, resumed = _held_at(tx, row, step)
    if held and resumed > held[0]:
        return True
    at = events_of(tx.rows("events_at", shard=row.shard, execution=row.id, address=step))
    said = [event for event in at if event.kind in _RULED]
    return bool(said) and said[-1].kind is Kind.EFFECT_RULED and said[-1].data["ruling"] == "run"


def _held_at(tx: Tx, row: ExecutionRow, step: str) -> tuple[list[int], int]:
    """Return the numbers of the events that held the fork at a step, and that of the last one that resumed it."""
    stored: list[Row | Params] = [*tx.rows("pauses_of", shard=row.shard, execution=row.id)]
    said = [*stored, *(event for event in tx.appended(row.id, 0) if event["kind"] in (Kind.PAUSED, Kind.RESUMED))]
    held = [event["seq"] for event in said if event["kind"] == Kind.PAUSED and event["address"] == step]
    return held, max((event["seq"] for event in said if event["kind"] == Kind.RESUMED), default=0)


_RULED = frozenset({Kind.TASK_UNCERTAIN, Kind.EFFECT_RULED, Kind.TASK_BEGUN})


def hold(tx: Tx, row: ExecutionRow, tool: str, address: str) -> None:
    """Pause a fork that would act on the world by itself, for a person to say that it may. Said once for each step."""
    held, resumed = _held_at(tx, row, address)
    if held and held[-1] > resumed:
        return  # the answer was lost
    if row.may("pause"):
        row.move("pause")
        row.reason = states.Reason.USER
    elif row.state != states.Execution.PAUSED:
        return
    message = (
        f"this fork of {row.origin} is about to call {tool} at {address!r}, which the origin did not do, or did with "
        "other arguments, or of which it is not known what became. Resume it to have the call made, or cancel it."
    )
    tx.append(row, Kind.PAUSED, address, data={"reason": row.reason, "message": message, "by": "perdure"})


def _of_origin(tx: Tx, row: ExecutionRow, address: str, digest: str) -> Told | None:
    """Return how the same call, at the same address with the same arguments, ended in the origin. None: not at all."""
    events = events_of(tx.rows("events_at", shard=shard_of(row.origin), execution=row.origin, address=address))
    same = any(event.kind is Kind.TASK_SCHEDULED and event.digest == digest for event in events)
    return ended(events) if same else None


def _take(tx: Tx, row: ExecutionRow, address: str, told: Told) -> None:
    tx.append(row, told.kind, address, data={**told.data, "origin": row.origin})


def _answer(asked: Event, at: list[Event]) -> Told | Event | None:
    match asked.kind:
        case Kind.STEP_RECORDED:
            return asked
        case Kind.TASK_SCHEDULED:
            return ended(at)
        case _:
            return next((event for event in at if event.kind is Kind.CHILD_ENDED), None)


def _settle(tx: Tx, row: ExecutionRow, item: OfferStep, asked: Event, answer: Told | Event) -> list[dict[str, Any]]:
    """Append the origin's step with its end. Where the code asks for something else there, it finds a mismatch."""
    seq = tx.append(row, asked.kind, item.address, item.digest, {**asked.data, "origin": row.origin})
    if isinstance(answer, Told):
        _take(tx, row, item.address, answer)
        return [inline_task(row, item, asked.data, seq, answer.state, tx.now_ms)]
    if answer is not asked:
        tx.append(row, answer.kind, item.address, data={**answer.data, "origin": row.origin})
    return []


def _refuse(tx: Tx, row: ExecutionRow, item: OfferStep) -> list[dict[str, Any]]:
    """A fork that is being cancelled cannot wait for a person: what its cleanup would do fails, and is not done."""
    message = (
        f"this fork of {row.origin} is being cancelled, and nobody said that it may act: {item.name} was not done. "
        "If it has to be, do it by hand."
    )
    match item.kind:
        case "step":
            error = {"code": "fork_may_not_act", "type": "Terminal", "message": message, "attempt": 1, "retry_ms": None}
            tx.append(row, Kind.STEP_RECORDED, item.address, item.digest, {"value": None, "error": error})
            return []
        case "task":
            facts = inline_facts(row, item)
            seq = tx.append(row, Kind.TASK_SCHEDULED, item.address, item.digest, facts)
            tx.append(
                row,
                Kind.TASK_FAILED,
                item.address,
                data={**_NOBODY, "error": message, "code": "fork_may_not_act"},
            )
            return [inline_task(row, item, facts, seq, states.Task.DEAD, tx.now_ms)]
        case "child":
            tx.append(row, Kind.CHILD_STARTED, item.address, item.digest, {"execution": "", "agent": item.name})
            failure = {"code": "fork_may_not_act", "error": message}
            state = states.Execution.FAILED
            facts = {"execution": "", "state": state, "output": None, "failure": failure}
            tx.append(row, Kind.CHILD_ENDED, item.address, data=facts)
            return []
        case _:
            assert_never(item.kind)


def simulated_step(tx: Tx, row: ExecutionRow, item: SimulatedStep) -> dict[str, Any]:
    """Append what stood in for an `at_most_once` step, and return its row."""
    facts = inline_facts(row, item, simulated=True)
    seq = tx.append(row, Kind.TASK_SCHEDULED, item.address, item.digest, facts)
    if item.failure is None:
        told = Told(Kind.TASK_COMPLETED, {**_NOBODY, "value": codec.decode(item.value), "simulated": True})
    else:
        failure = {"error": item.failure.message, "code": item.failure.code}
        told = Told(Kind.TASK_FAILED, {**_NOBODY, **failure, "simulated": True})
    tx.append(row, told.kind, item.address, data=told.data)
    return inline_task(row, item, facts, seq, told.state, tx.now_ms)
