"""What happened in an execution, step by step, read from its log: who waited for whom, how often tried, what it cost.

Pure: events in, shapes out. Everything that shows an execution to people stands on this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from perdure.client.tool_steps import ToolStep, tool_steps
from perdure.core.codec import Json
from perdure.core.events import ANSWERS, LAST, Event, Kind, is_model_call, reply_in
from perdure.core.tokens import TOKEN_ENDS
from perdure.core.views import TaskView


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
    entries: list[Entry] = [*tool_steps(log, {task.address: task for task in tasks}), *_models(log), *_gaps(log)]
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
        decided_ms=sum(one.decided_ms for one in tools),
        dead_ms=sum(one.ended_ms - one.started_ms for one in entries if isinstance(one, Gap)),
        repeated=sum(one.repeated for one in models),
    )


def _place(entry: Entry) -> tuple[int, int]:
    """Sort by time; what ends the log comes last, and what began it first."""
    last = isinstance(entry, News) and entry.kind in LAST
    first = isinstance(entry, News) and entry.kind is Kind.STARTED
    return entry.started_ms, 2 if last else 0 if first else 1


# Model calls.


def _models(log: Sequence[Event]) -> Iterable[ModelStep]:
    trigger_ms, silent, repeated = log[0].at_ms if log else 0, False, 0
    answered: set[str] = set()
    """What has had an answer before: whatever comes after it, the loop may be past it, in a model call."""
    for event in log:
        if event.kind is Kind.TAKEN_OVER:
            trigger_ms, repeated = event.at_ms, repeated + 1
        elif is_model_call(event):
            step = _model(event, trigger_ms, repeated)
            yield step
            trigger_ms, silent, repeated = event.at_ms, not step.calls, 0
        elif event.kind is Kind.STARTED or (event.kind in ANSWERS and (silent or event.address not in answered)):
            trigger_ms, repeated = event.at_ms, 0
        if event.kind in ANSWERS:
            answered.add(event.address)


def _model(event: Event, started_ms: int, repeated: int) -> ModelStep:
    outcome = event.data["value"]
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
