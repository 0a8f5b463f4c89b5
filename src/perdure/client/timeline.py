"""What happened in an execution, step by step, read from its log: who waited for whom, how often tried, what it cost.

Pure: events in, shapes out. Everything that shows an execution to people stands on this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, cast

from perdure.core import states
from perdure.core.codec import Json
from perdure.core.events import ANSWERS, Event, Kind, reply_in
from perdure.core.tokens import TOKEN_ENDS
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


@dataclass(frozen=True, slots=True)
class ModelStep:
    """A model call; recorded once and never made again."""

    address: str
    started_ms: int
    """When it could begin: the last answer before it, or the takeover after which it was made again."""
    ended_ms: int
    outcome: str
    """`replied`, `retry_later` or `refused`."""
    requests: int
    """In all, those of processes that died included."""
    repeated: int = 0
    """Requests of processes that died before they recorded a reply: possibly paid, and made again."""
    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments, as the model wrote them."""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    error: str | None = None
    type: Literal["model"] = "model"


@dataclass(frozen=True, slots=True)
class Gap:
    """A server held the execution and died; nothing moved it until another took over."""

    started_ms: int
    """The last thing recorded before: it may have lived a while longer."""
    ended_ms: int
    type: Literal["gap"] = "gap"


@dataclass(frozen=True, slots=True)
class News:
    """Anything about the execution as a whole."""

    kind: Kind
    started_ms: int
    text: str = ""
    by: str = ""
    type: Literal["news"] = "news"


Entry = ToolStep | ModelStep | Gap | News


@dataclass(frozen=True, slots=True)
class Timeline:
    """Entries in the order in which they began, and sums over them in milliseconds."""

    entries: tuple[Entry, ...]
    model_ms: int
    queued_ms: int
    paused_ms: int
    ran_ms: int
    decided_ms: int
    """Waiting for people."""
    dead_ms: int
    """Held by a server that had died; at most."""
    repeated: int
    """Model calls that were possibly paid twice."""


def timeline_of(events: Iterable[Event], tasks: Iterable[TaskView] = ()) -> Timeline:
    """Return the story that a log, or a part of it, tells. `tasks` adds which attempts run just now, and how
    calls ended behind the part. What is told of calls that were asked for before it is left out."""
    log = list(events)
    entries: list[Entry] = [*_tools(log, {task.address: task for task in tasks}), *_models(log), *_gaps(log)]
    entries += [news for event in log if (news := _news(event)) is not None]
    entries.sort(key=_place)
    tools = [one for one in entries if isinstance(one, ToolStep)]
    models = [one for one in entries if isinstance(one, ModelStep)]
    return Timeline(
        entries=tuple(entries),
        model_ms=sum(one.ended_ms - one.started_ms for one in models),
        queued_ms=sum(one.queued_ms for one in tools),
        paused_ms=sum(one.paused_ms for one in tools),
        ran_ms=sum(one.ran_ms for one in tools),
        decided_ms=sum(_decided_ms(one.approval) for one in tools),
        dead_ms=sum(one.ended_ms - one.started_ms for one in entries if isinstance(one, Gap)),
        repeated=sum(one.repeated for one in models),
    )


def _place(entry: Entry) -> tuple[int, int]:
    """Sort by time; what ends the log comes last, and what began it first."""
    last = isinstance(entry, News) and entry.kind in (Kind.COMPLETED, Kind.FAILED, Kind.CANCELLED)
    first = isinstance(entry, News) and entry.kind is Kind.STARTED
    return entry.started_ms, 2 if last else 0 if first else 1


def _decided_ms(approval: Approval | None) -> int:
    return 0 if approval is None or approval.decided_ms is None else approval.decided_ms - approval.opened_ms


# Tool calls.


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


def _tools(log: Sequence[Event], tasks: dict[str, TaskView]) -> Iterable[ToolStep]:
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


# Model calls.


def _models(log: Sequence[Event]) -> Iterable[ModelStep]:
    trigger_ms, silent, repeated = log[0].at_ms if log else 0, False, 0
    answered: set[str] = set()
    """What has had an answer before: whatever comes after it, the loop may be past it, in a model call."""
    for event in log:
        if event.kind is Kind.TAKEN_OVER:
            trigger_ms, repeated = event.at_ms, repeated + 1
        elif event.kind is Kind.STEP_RECORDED and _outcome(event) is not None:
            step = _model(event, trigger_ms, repeated)
            yield step
            trigger_ms, silent, repeated = event.at_ms, not step.calls, 0
        elif event.kind is Kind.STARTED or (event.kind in ANSWERS and (silent or event.address not in answered)):
            trigger_ms, repeated = event.at_ms, 0
        if event.kind in ANSWERS:
            answered.add(event.address)


def _outcome(event: Event) -> dict[str, Any] | None:
    value: object = event.data["value"]
    if not isinstance(value, dict) or "outcome" not in value:
        return None
    return cast("dict[str, Any]", value)


def _model(event: Event, started_ms: int, repeated: int) -> ModelStep:
    outcome = _outcome(event) or {}
    step = ModelStep(
        address=event.address,
        started_ms=started_ms,
        ended_ms=event.at_ms,
        outcome=str(outcome["outcome"]),
        requests=int(outcome.get("requests") or 0),
        repeated=repeated,
        error=outcome.get("message"),
    )
    reply = reply_in(event)
    if reply is None:
        return step
    return replace(
        step,
        text=reply["text"],
        calls=tuple((call["name"], call["arguments"]) for call in reply["tool_calls"]),
        model=reply["model"],
        input_tokens=reply["usage"]["input_tokens"],
        output_tokens=reply["usage"]["output_tokens"],
        cost_usd=reply.get("cost_usd"),
    )


# The execution as a whole.


def _gaps(log: Sequence[Event]) -> Iterable[Gap]:
    for before, event in pairwise(log):
        if event.kind is Kind.TAKEN_OVER:
            yield Gap(before.at_ms, event.at_ms)


def _news(event: Event) -> News | None:
    said = event.data
    match event.kind:
        case Kind.STARTED:
            text = said["input"] if isinstance(said["input"], str) else str(said["input"])
            return News(event.kind, event.at_ms, text)
        case Kind.MESSAGE:
            return News(event.kind, event.at_ms, said["text"], said["by"])
        case Kind.PAUSED | Kind.STUCK:
            return News(event.kind, event.at_ms, said.get("message") or said["reason"], said.get("by", ""))
        case Kind.CANCEL_REQUESTED:
            return News(event.kind, event.at_ms, said["reason"], said["by"])
        case Kind.RESUMED | Kind.STOP_REQUESTED:
            return News(event.kind, event.at_ms, "", said["by"])
        case Kind.COMPLETED:
            return News(event.kind, event.at_ms, _result(said["output"]))
        case Kind.FAILED:
            return News(event.kind, event.at_ms, said["error"])
        case Kind.CANCELLED:
            return News(event.kind, event.at_ms)
        case _:
            return _waited_for(event)


def _result(output: Json) -> str:
    """Return what came of it: an agent's answer, or whatever a durable function returned."""
    return str(output.get("result", "") if isinstance(output, dict) else output)


def _waited_for(event: Event) -> News | None:
    """Return what it says about waits for something outside: dates, tokens, signals, executions that it began."""
    said = event.data
    match event.kind:
        case Kind.TIMER_SET:
            return News(event.kind, event.at_ms, f"{(said['due_ms'] - event.at_ms) / 1000:g} s")
        case Kind.SIGNAL:
            return News(event.kind, event.at_ms, f"{said['name']} = {said['value']}", said["by"])
        case Kind.WAIT_OPENED if "tool" not in said:
            return News(event.kind, event.at_ms, f"for {said['kind']} {said['name']}")
        case Kind.WAIT_RESOLVED if said["decision"] in TOKEN_ENDS:
            answer = said.get("error", said.get("value"))
            return News(event.kind, event.at_ms, f"{said['decision']}: {answer}", said["by"])
        case Kind.APPROVAL_ESCALATED:
            return News(event.kind, event.at_ms, f"to {', '.join(said['to'])}")
        case Kind.CHILD_STARTED:
            return News(event.kind, event.at_ms, f"{said['agent']} as {said['execution']}")
        case Kind.CHILD_ENDED:
            return News(event.kind, event.at_ms, f"{said['execution']} {said['state']}")
        case _:
            return None
