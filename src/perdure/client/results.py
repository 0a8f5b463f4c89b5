"""What a program gets back about an execution: its status now, and its result in the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from perdure.core import states
from perdure.core.codec import Json
from perdure.core.events import Event, Kind, reply_in
from perdure.core.states import Execution as Status
from perdure.core.views import ApprovalView, ExecutionView, UsageView, WaitView
from perdure.core.work import Failure
from perdure.errors import ExecutionFailed


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """An execution as it stood when it was asked for."""

    execution_id: str
    status: Status
    reason: str | None
    """Why it is paused or stuck: `user`, `quota`, `key`, `mismatch` or `poison`."""
    message: str | None
    """The same in words, with the fix; or why it failed."""
    approvals: tuple[ApprovalView, ...]
    """Calls that wait for a decision, each with its tool and exact arguments."""
    waits: tuple[WaitView, ...]
    """Everything it waits for, approvals included."""
    output: Any
    """None before the end."""
    usage: UsageView

    @property
    def is_waiting(self) -> bool:
        """Whether it is parked for a person's decision."""
        return bool(self.approvals)

    @property
    def is_complete(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status in states.TERMINAL

    @property
    def is_running(self) -> bool:
        """Whether it will go on by itself, now or when what it waits for arrives."""
        return not self.is_complete and self.status not in (Status.PAUSED, Status.STUCK)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool call as it ended."""

    id: str
    """Its address in the execution's log."""
    tool: str
    args: dict[str, Json]
    value: Json = None
    error: str | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class AgentResult:
    """How an execution ended. Read `output["result"]`; `raise_for_status` turns a failure into an exception."""

    execution_id: str
    status: Status
    output: Any
    """Of an agent that completed `result` and `finish_reason`, of a durable function what it returned. Of what did not
    complete nothing: `{}`, in which any key raises what `raise_for_status` does."""
    failure: Failure | None
    messages: tuple[dict[str, Json], ...]
    """The conversation: `role` and `text`, and for an assistant its `tool_calls`."""
    tool_calls: tuple[ToolUse, ...]
    usage: UsageView
    cost: float | None
    """US dollars; None if the price of a model call is unknown."""
    last_seq: int = field(default=0, repr=False)

    def raise_for_status(self) -> AgentResult:
        """Return itself if completed. Raises `ExecutionFailed` with the failure's code otherwise."""
        if self.status is Status.COMPLETED:
            return self
        raise _not_completed(self.execution_id, self.status, self.failure)


class _NoOutput(dict[str, Any]):
    """What an execution that did not complete has for an output. Who takes a part of it learns why there is none."""

    def __init__(self, why: ExecutionFailed) -> None:
        super().__init__()
        self._why = why

    def __missing__(self, _key: str) -> NoReturn:
        raise self._why


def _not_completed(execution: str, status: Status, failure: Failure | None) -> ExecutionFailed:
    code, message = (failure.code, failure.message) if failure else (str(status), f"it was {status}")
    return ExecutionFailed(f"execution {execution} {status}: {message}", code=code, execution=execution)


def status_of(view: ExecutionView) -> AgentStatus:
    """Return the status that a view tells."""
    return AgentStatus(
        execution_id=view.id,
        status=Status(view.state),
        reason=view.reason,
        message=view.message,
        approvals=view.approvals,
        waits=view.waits,
        output=view.output,
        usage=view.usage,
    )


def result_of(view: ExecutionView, events: Iterable[Event]) -> AgentResult:
    """Return the result that a view and its log tell."""
    log = list(events)
    return AgentResult(
        execution_id=view.id,
        status=Status(view.state),
        output=_output(view),
        failure=view.failure,
        messages=tuple(_messages(log)),
        tool_calls=tuple(_tool_uses(log)),
        usage=view.usage,
        cost=view.usage.cost_usd,
        last_seq=view.last_seq,
    )


def _output(view: ExecutionView) -> Any:
    if view.output is not None:
        return view.output
    if view.state != Status.COMPLETED:
        return _NoOutput(_not_completed(view.id, Status(view.state), view.failure))
    return {} if view.model else None


def _messages(log: list[Event]) -> Iterable[dict[str, Json]]:
    for event in log:
        match event.kind:
            case Kind.STARTED:
                yield {"role": "user", "text": event.data["input"]}
            case Kind.MESSAGE:
                yield {"role": "user", "text": event.data["text"]}
            case Kind.STEP_RECORDED if (reply := reply_in(event)) is not None:
                yield {"role": "assistant", "text": reply["text"], "tool_calls": reply["tool_calls"]}
            case Kind.TASK_COMPLETED:
                yield {"role": "tool", "address": event.address, "text": event.data["value"]}
            case Kind.TASK_FAILED | Kind.TASK_UNCERTAIN:
                yield {"role": "tool", "address": event.address, "text": event.data["error"], "failed": True}
            case _:
                pass


def _tool_uses(log: list[Event]) -> Iterable[ToolUse]:
    ended = {event.address: event for event in log if event.kind in (Kind.TASK_COMPLETED, Kind.TASK_FAILED)}
    for event in log:
        if event.kind is Kind.TASK_SCHEDULED:
            end = ended.get(event.address)
            facts = end.data if end else {}
            yield ToolUse(
                id=event.address,
                tool=event.data["tool"],
                args=event.data["args"],
                value=facts.get("value"),
                error=facts.get("error"),
                attempts=facts.get("attempt") or 0,
            )
