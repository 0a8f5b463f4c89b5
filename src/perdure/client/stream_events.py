"""What a program sees when it follows an execution: one frozen union, a class per kind of news.

Match on the class. A kind that this version does not know arrives as `OtherEvent`, so newer servers break no client.
All but `ReplyDelta` and `ReplyReset` are recorded, and come again to whoever follows again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.core.codec import Json
from perdure.core.events import Event, Kind, reply_in
from perdure.core.live import Delta, LiveNews
from perdure.core.tokens import TOKEN_ENDS


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """What all of them carry."""

    seq: int
    """Place in the log; give it back as `after` to go on from here."""
    at_ms: int
    """By the store's clock."""
    address: str
    """The step concerned; empty for news about the whole execution."""


@dataclass(frozen=True, slots=True)
class ExecutionStarted(StreamEvent):
    input: Json


@dataclass(frozen=True, slots=True)
class ReplyDelta(StreamEvent):
    """A piece of a reply that a model is still at. In no log: `ModelReplied` takes its place.

    With `offset` 0 it takes the place of all that came of this address, by this attempt or an earlier one; else it
    follows what came. `seq` and `at_ms` are those of the last recorded event.
    """

    attempt: int
    offset: int
    """Characters of this attempt before it."""
    text: str


@dataclass(frozen=True, slots=True)
class ReplyReset(StreamEvent):
    """What came of replies in the making is void, and the rest is not told here. `seq` and `at_ms`: as `ReplyDelta`."""

    why: str
    """`elsewhere`: another server asks the model, and has more to tell than it tells others."""


@dataclass(frozen=True, slots=True)
class ModelReplied(StreamEvent):
    """A reply was recorded; it is never asked for, or paid for, again."""

    text: str
    tool_calls: tuple[dict[str, Json], ...]
    finish_reason: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class ToolScheduled(StreamEvent):
    """A call waits for a worker."""

    tool: str
    args: dict[str, Json]
    delivery: str


@dataclass(frozen=True, slots=True)
class ToolBegun(StreamEvent):
    """An `at_most_once` body may start from here on, once."""

    worker: str | None


@dataclass(frozen=True, slots=True)
class ToolAttemptFailed(StreamEvent):
    """One try ended without a result, and another will follow."""

    attempt: int
    error: str


@dataclass(frozen=True, slots=True)
class ToolCompleted(StreamEvent):
    value: Json
    attempt: int


@dataclass(frozen=True, slots=True)
class ToolFailed(StreamEvent):
    """No result, for good; the model is told."""

    error: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ToolUncertain(StreamEvent):
    """It had begun, and nobody knows the outcome. Somebody has to rule."""

    error: str


@dataclass(frozen=True, slots=True)
class EffectRuled(StreamEvent):
    ruling: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class ApprovalRequested(StreamEvent):
    approval_id: str
    tool: str
    args: dict[str, Json]


@dataclass(frozen=True, slots=True)
class ApprovalDecided(StreamEvent):
    approval_id: str
    decision: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class MessageReceived(StreamEvent):
    text: str
    by: str


@dataclass(frozen=True, slots=True)
class ExecutionTakenOver(StreamEvent):
    """A server claimed it from one that died."""


@dataclass(frozen=True, slots=True)
class ExecutionPaused(StreamEvent):
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ExecutionCompleted(StreamEvent):
    output: Any


@dataclass(frozen=True, slots=True)
class ExecutionFailedEvent(StreamEvent):
    code: str
    error: str


@dataclass(frozen=True, slots=True)
class ExecutionCancelled(StreamEvent):
    pass


@dataclass(frozen=True, slots=True)
class OtherEvent(StreamEvent):
    """Anything else: its kind, and what it carries."""

    kind: str
    data: dict[str, Json]


AgentEvent = (
    ExecutionStarted
    | ReplyDelta
    | ReplyReset
    | ModelReplied
    | ToolScheduled
    | ToolBegun
    | ToolAttemptFailed
    | ToolCompleted
    | ToolFailed
    | ToolUncertain
    | EffectRuled
    | ApprovalRequested
    | ApprovalDecided
    | MessageReceived
    | ExecutionTakenOver
    | ExecutionPaused
    | ExecutionCompleted
    | ExecutionFailedEvent
    | ExecutionCancelled
    | OtherEvent
)


def live_event(news: LiveNews, seq: int, at_ms: int) -> AgentEvent:
    """Return what a model says as programs see it: behind the event `seq` of the log."""
    if isinstance(news, Delta):
        return ReplyDelta(seq, at_ms, news.address, news.attempt, news.offset, news.text)
    return ReplyReset(seq, at_ms, "", news.why)


def stream_event(event: Event) -> AgentEvent:
    """Return an event of the log as programs see it."""
    at = (event.seq, event.at_ms, event.address)
    data = event.data
    match event.kind:
        case Kind.STARTED:
            return ExecutionStarted(*at, data["input"])
        case Kind.STEP_RECORDED if (reply := reply_in(event)) is not None:
            return _replied(at, reply)
        case Kind.TASK_SCHEDULED:
            return ToolScheduled(*at, data["tool"], data["args"], data["delivery"])
        case Kind.TASK_BEGUN:
            return ToolBegun(*at, data["worker"])
        case Kind.ATTEMPT_FAILED | Kind.ATTEMPT_LOST:
            return ToolAttemptFailed(*at, data["attempt"], data.get("error") or data.get("why", ""))
        case Kind.TASK_COMPLETED:
            return ToolCompleted(*at, data["value"], data["attempt"])
        case Kind.TASK_FAILED:
            return ToolFailed(*at, data["error"], data["attempt"])
        case Kind.TASK_UNCERTAIN:
            return ToolUncertain(*at, data["why"])
        case _:
            return _about_the_run(event, at)


def _about_the_run(event: Event, at: tuple[int, int, str]) -> AgentEvent:
    data = event.data
    match event.kind:
        case Kind.EFFECT_RULED:
            return EffectRuled(*at, data["ruling"], data["by"], data["reason"])
        case Kind.WAIT_OPENED if "tool" in data:
            return ApprovalRequested(*at, data["id"], data["tool"], data["args"])
        case Kind.WAIT_RESOLVED if data["decision"] not in TOKEN_ENDS:
            return ApprovalDecided(*at, data["id"], data["decision"], data["by"], data["reason"])
        case Kind.MESSAGE:
            return MessageReceived(*at, data["text"], data["by"])
        case Kind.TAKEN_OVER:
            return ExecutionTakenOver(*at)
        case Kind.PAUSED:
            return ExecutionPaused(*at, data["reason"], data["message"])
        case Kind.COMPLETED:
            return ExecutionCompleted(*at, data["output"])
        case Kind.FAILED:
            return ExecutionFailedEvent(*at, data["code"], data["error"])
        case Kind.CANCELLED:
            return ExecutionCancelled(*at)
        case _:
            return OtherEvent(*at, event.kind, data)


def _replied(at: tuple[int, int, str], reply: dict[str, Json]) -> ModelReplied:
    usage = reply["usage"]
    calls = reply["tool_calls"]
    return ModelReplied(
        *at,
        text=str(reply["text"]),
        tool_calls=tuple(call for call in calls if isinstance(call, dict)) if isinstance(calls, list) else (),
        finish_reason=str(reply["finish_reason"]),
        input_tokens=_count(usage, "input_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        cost_usd=cost if isinstance(cost := reply.get("cost_usd"), (int, float)) else None,
    )


def _count(usage: Json, name: str) -> int:
    found = usage.get(name) if isinstance(usage, dict) else None
    return found if isinstance(found, int) else 0
