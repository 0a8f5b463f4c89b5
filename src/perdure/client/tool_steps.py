"""The tool calls of an execution, read from its log: each from the approval it needed to its end, with its attempts.

Pure: events in, shapes out. A part of `timeline`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from perdure.core import states
from perdure.core.codec import Json
from perdure.core.events import Event, Kind
from perdure.core.views import TaskView


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's decision about a call, or the wait for it."""

    id: str
    opened_ms: int
    decided_ms: int | None = None
    decision: str | None = None
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a tool call."""

    number: int
    worker: str | None
    started_ms: int | None
    ended_ms: int | None
    error: str | None = None
    """Why it brought no result; None if it did, or still runs."""
    lost: bool = False
    """Nothing was heard of it: its worker vanished, or handed it back."""
    pause_ms: int = 0
    """How long the next try was put off."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What somebody said an uncertain effect was."""

    ruling: str
    by: str
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class ToolStep:
    """A tool call, from the approval it needed to its end."""

    address: str
    tool: str
    args: dict[str, Json]
    delivery: str
    state: states.Task
    started_ms: int
    """When it was scheduled, or its approval asked for."""
    scheduled_ms: int | None = None
    """None while, or because, it was not approved."""
    ended_ms: int | None = None
    attempts: tuple[Attempt, ...] = ()
    approval: Approval | None = None
    ruling: Ruling | None = None
    value: Json = None
    error: str | None = None
    queued_ms: int = 0
    """Waiting for a worker."""
    paused_ms: int = 0
    """Put off between a failed try and the next."""
    ran_ms: int = 0
    """In a body that reported its end."""
    simulated: bool = False
    """In a fork: what its author gave to stand in for it ran, or is to run; nothing was done."""
    type: Literal["tool"] = "tool"

    @property
    def decided_ms(self) -> int:
        """For how long a person was waited for who has decided."""
        said = self.approval
        return 0 if said is None or said.decided_ms is None else said.decided_ms - said.opened_ms


@dataclass(slots=True)
class _Call:
    """The events of one tool call, gathered."""

    scheduled: Event | None = None
    opened: Event | None = None
    resolved: Event | None = None
    begun: Event | None = None
    ruled: Event | None = None
    ends: list[Event] = field(default_factory=list[Event])
    """Ends of attempts, and of the whole."""


_ATTEMPT_ENDS = frozenset(
    {
        Kind.ATTEMPT_FAILED,
        Kind.ATTEMPT_LOST,
        Kind.TASK_COMPLETED,
        Kind.TASK_FAILED,
        Kind.TASK_UNCERTAIN,
        Kind.TASK_REVIVED,  # of none: what ended before it counts no more
    }
)


def tool_steps(log: Sequence[Event], tasks: Mapping[str, TaskView]) -> list[ToolStep]:
    """Return the calls that were asked for in a log, or in a part of it, in that order. `tasks` are as of now, by
    address."""
    calls: dict[str, _Call] = {}
    for event in log:
        match event.kind:
            case Kind.WAIT_OPENED if "tool" in event.data:
                calls.setdefault(_call_of(event.address), _Call()).opened = event
            case Kind.WAIT_RESOLVED if _call_of(event.address) in calls:
                calls[_call_of(event.address)].resolved = event
            case Kind.TASK_SCHEDULED:
                calls.setdefault(event.address, _Call()).scheduled = event
            case _ if event.address not in calls:  # of a probe, which is no call, or of one asked for before this part
                pass
            case Kind.TASK_BEGUN:
                calls[event.address].begun = event
            case Kind.EFFECT_RULED:
                calls[event.address].ruled = event
            case kind if kind in _ATTEMPT_ENDS:
                calls[event.address].ends.append(event)
            case _:
                pass
    return [_tool(address, call, tasks.get(address)) for address, call in calls.items()]


_CALLED = ("approve", "edit")
"""Decisions after which the tool is called."""
_NOT_CALLED = {states.Waitpoint.EXPIRED: "nobody decided in time", "respond": "answered by a person instead"}
"""Why a call was not made, where nobody refused it."""


def _call_of(approval: str) -> str:
    return approval.removesuffix("/approval")


def _tool(address: str, call: _Call, task: TaskView | None) -> ToolStep:
    asked = call.scheduled or call.opened
    assert asked is not None  # it is there by one of the two
    first = call.opened or asked
    step = ToolStep(
        address=address,
        tool=asked.data["tool"],
        args=asked.data["args"],
        delivery=asked.data.get("delivery", ""),
        state=states.Task.READY,
        started_ms=first.at_ms,
        scheduled_ms=call.scheduled.at_ms if call.scheduled else None,
        approval=_approval(call),
        ruling=_ruling(call.ruled),
        attempts=tuple(_attempt(end) for end in call.ends if end.data.get("attempt")),
        simulated=any(said.data.get("simulated") for said in (asked, *call.ends)),
    )
    if call.resolved is not None and call.scheduled is None and call.resolved.data["decision"] not in _CALLED:
        error = _NOT_CALLED.get(call.resolved.data["decision"], "rejected")
        return replace(step, state=states.Task.DEAD, ended_ms=call.resolved.at_ms, error=error)
    return _with_times(_with_end(step, call, task))


def _with_end(step: ToolStep, call: _Call, task: TaskView | None) -> ToolStep:
    for event in reversed(call.ends):
        match event.kind:
            case Kind.TASK_COMPLETED:
                return replace(step, state=states.Task.DONE, ended_ms=event.at_ms, value=event.data["value"])
            case Kind.TASK_FAILED:
                return replace(step, state=states.Task.DEAD, ended_ms=event.at_ms, error=event.data["error"])
            case Kind.TASK_UNCERTAIN:
                return _uncertain(replace(step, ended_ms=event.at_ms, error=event.data["why"]), call.ruled)
            case _:
                break
    if (
        task is not None and task.state in states.TASK_ENDED and task.ended_ms is not None
    ):  # behind this part of the log
        error = task.failure.message if task.failure else None
        return replace(step, state=states.Task(task.state), ended_ms=task.ended_ms, value=task.value, error=error)
    if task is not None and task.state in states.TASK_HELD and task.started_ms is not None:
        now = Attempt(task.attempt, task.worker, task.started_ms, None)
        return replace(step, state=states.Task(task.state), attempts=(*step.attempts, now))
    return replace(step, state=states.Task.BEGUN) if call.begun is not None else step


def _uncertain(step: ToolStep, ruled: Event | None) -> ToolStep:
    match ruled.data["ruling"] if ruled else None:
        case None:
            return replace(step, state=states.Task.UNCERTAIN)
        case "happened":
            return replace(step, state=states.Task.DONE, value=ruled.data["value"] if ruled else None)
        case "run":
            return replace(step, state=states.Task.READY, ended_ms=None)
        case _:
            return replace(step, state=states.Task.DEAD)


def _approval(call: _Call) -> Approval | None:
    if call.opened is None:
        return None
    pending = Approval(call.opened.data["id"], call.opened.at_ms)
    if call.resolved is None:
        return pending
    said = call.resolved.data
    return replace(
        pending, decided_ms=call.resolved.at_ms, decision=said["decision"], by=said["by"], reason=said["reason"]
    )


def _ruling(event: Event | None) -> Ruling | None:
    return event and Ruling(event.data["ruling"], event.data["by"], event.data["reason"], event.at_ms)


def _attempt(end: Event) -> Attempt:
    said = end.data
    error = said.get("error") or said.get("why")
    lost = end.kind is Kind.ATTEMPT_LOST
    return Attempt(
        number=said["attempt"],
        worker=said.get("worker"),
        started_ms=said.get("started_ms"),
        ended_ms=end.at_ms,
        error=error,
        lost=lost,
        pause_ms=said.get("retry_ms") or 0,
    )


def _with_times(step: ToolStep) -> ToolStep:
    queued = ran = paused = 0
    free_ms = step.scheduled_ms
    for attempt in step.attempts:
        if attempt.started_ms is not None and free_ms is not None:
            queued += max(attempt.started_ms - free_ms, 0)
            if attempt.ended_ms is not None and not attempt.lost:
                ran += max(attempt.ended_ms - attempt.started_ms, 0)
        paused += attempt.pause_ms
        free_ms = None if attempt.ended_ms is None else attempt.ended_ms + attempt.pause_ms
    return replace(step, queued_ms=queued, ran_ms=ran, paused_ms=paused)
