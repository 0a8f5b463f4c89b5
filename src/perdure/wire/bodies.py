"""What requests and replies hold beside the shapes of `core.views` and `core.work`.

Bodies of the control API refuse fields they do not know: a misspelt key, or a company, must not pass in silence.
Those of the worker API ignore them, so that a newer worker can speak to an older server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from perdure.core.blobs import BlobRef
from perdure.core.codec import Json
from perdure.core.events import Event
from perdure.core.functions import ClaimRequest, Entry, HeldExecution, Reply
from perdure.core.queues import QueueLimits, QueueView
from perdure.core.schedules import Missed, Overlap, ScheduleView
from perdure.core.secrets import SecretView
from perdure.core.views import ApprovalView, Decision, EffectView, Finding, ForkEdits, Ruling, TaskView
from perdure.core.work import LEASE_MS, Answer, Held, LeasedTask, LeaseRequest, Report, WorkerInfo

_STRICT: dict[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class StartBody:
    """`POST /v1/executions`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    spec: dict[str, Json]
    """The agent, compiled to JSON."""
    input: Json
    idempotency_key: str | None = None
    by: str = ""
    delay_seconds: float | None = None
    start_at_ms: int | None = None
    priority: int = 0
    limit_key: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageBody:
    """A message into an execution."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    text: str
    by: str = ""
    dedupe: str | None = None


@dataclass(frozen=True, slots=True)
class SignalBody:
    """A signal into an execution."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    name: str
    value: Json = None
    by: str = ""
    dedupe: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleBody:
    """`POST /v1/schedules`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    name: str
    spec: dict[str, Json]
    """The agent, compiled to JSON."""
    input: Json
    cron: str
    zone: str = "UTC"
    missed: Missed = "one"
    by: str = ""
    tags: tuple[str, ...] = ()
    """Of what it begins."""
    overlap: Overlap = "allow"


@dataclass(frozen=True, slots=True)
class TriggerBody:
    """A wish for a schedule's execution now. The same `nonce` gets the same one."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class ScheduleList:
    """Schedules by name."""

    items: tuple[ScheduleView, ...]


@dataclass(frozen=True, slots=True)
class QueueBody:
    """`PUT /v1/queues/{queue}`: all of its limits; one that is not given, or null, is lifted."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    concurrency: int | None = None
    rate: int | None = None
    per_seconds: float | None = None
    by: str = ""
    per_key: int | None = None

    @property
    def limits(self) -> QueueLimits:
        return QueueLimits(self.concurrency, self.rate, self.per_seconds, self.per_key)


@dataclass(frozen=True, slots=True)
class ByBody:
    """Who asks for it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    by: str = ""


@dataclass(frozen=True, slots=True)
class QueueList:
    """Queues by name."""

    items: tuple[QueueView, ...]


@dataclass(frozen=True, slots=True)
class BlobBody:
    """`POST /v1/blobs/{blob}`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    bytes: int
    """How long the whole content is."""


@dataclass(frozen=True, slots=True)
class ValueList:
    """Large values that a log refers to."""

    items: tuple[BlobRef, ...]


@dataclass(frozen=True, slots=True)
class SecretBody:
    """`PUT /v1/secrets/{secret}`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    value: str = field(repr=False)
    """Printable ASCII, which no route ever returns."""
    by: str = ""


@dataclass(frozen=True, slots=True)
class RotateBody:
    """Whose secrets to seal anew."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    all_companies: bool = False


@dataclass(frozen=True, slots=True)
class SecretList:
    """Secrets by name, without their values."""

    items: tuple[SecretView, ...]


@dataclass(frozen=True, slots=True)
class CompleteBody:
    """What a token was waited for."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    value: Json = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class FailBody:
    """Why what a token was waited for will not come."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    error: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class ReasonBody:
    """Who wants an execution paused, resumed, stopped or cancelled, and why."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DecisionBody:
    """A person's answer to an approval."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    decision: Decision
    by: str = ""
    reason: str = ""
    digest: str | None = None
    """Of the call that was shown; another one is then refused with `approval_changed`."""
    args: dict[str, Json] | None = None
    """With `edit`: what to call the tool with."""
    answer: str | None = None
    """With `respond`: what the model reads in the tool's place."""


@dataclass(frozen=True, slots=True)
class RulingBody:
    """What an uncertain effect was. `address` is the step's."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    address: str
    ruling: Ruling
    by: str = ""
    reason: str = ""
    value: Json = None


@dataclass(frozen=True, slots=True)
class RetryBody:
    """Which dead task is to be tried anew."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    address: str
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MapBody:
    """Which step, or with a `/` at its end which scope, of the log has another name in the code now."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    old: str
    new: str
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ForkBody:
    """Where to fork an execution, and what is to be different. `results`: of calls and steps, by address, and of an
    agent the model's last reply: its text, or `text` and `tool_calls`. `prompt` and `model` are of agents, `input` and
    `build` of durable functions. The same `idempotency_key` for the same origin gives the first fork back."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    at: int
    prompt: str | None = None
    model: str | None = None
    results: dict[str, Json] = field(default_factory=dict[str, Json])
    by: str = ""
    input: Json = None
    build: str | None = None
    idempotency_key: str | None = None

    @property
    def edits(self) -> ForkEdits:
        return ForkEdits(self.prompt, self.model, self.results, self.input, self.build)


@dataclass(frozen=True, slots=True)
class Sent:
    """The number of the message's event."""

    seq: int


@dataclass(frozen=True, slots=True)
class EventList:
    """A stretch of a log, in order."""

    items: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class ApprovalList:
    """Approvals, oldest first."""

    items: tuple[ApprovalView, ...]


@dataclass(frozen=True, slots=True)
class TaskList:
    """The tasks of an execution."""

    items: tuple[TaskView, ...]


@dataclass(frozen=True, slots=True)
class EffectList:
    """The ledger's lines."""

    items: tuple[EffectView, ...]


@dataclass(frozen=True, slots=True)
class FindingList:
    """What the doctor has to say."""

    items: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class WorkerList:
    """The workers connected to this server."""

    items: tuple[WorkerInfo, ...]


@dataclass(frozen=True, slots=True)
class LeaseBody:
    """A worker's wish for tasks and how long it will wait for the first one."""

    request: LeaseRequest
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ReportBody:
    """How attempts ended."""

    worker: str
    reports: tuple[Report, ...]


@dataclass(frozen=True, slots=True)
class HeldBody:
    """Tasks that a worker holds: to keep (`beat`) or to return (`hand-back`)."""

    worker: str
    held: tuple[Held, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class ClaimBody:
    """A worker's wish for executions of durable functions, and how long it will wait for something to happen."""

    request: ClaimRequest
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class OwnedBody:
    """Executions that a worker owns: to keep for another `lease_ms` (`renew`) or to return (`release`)."""

    worker: str
    held: tuple[HeldExecution, ...] = field(default=())
    lease_ms: int = LEASE_MS


@dataclass(frozen=True, slots=True)
class JournalBody:
    """What a worker says in, or asks of, the logs of executions it owns."""

    worker: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class JournalReply:
    """One reply for each entry, in order."""

    replies: tuple[Reply, ...]


@dataclass(frozen=True, slots=True)
class TasksReply:
    """What was leased."""

    tasks: tuple[LeasedTask, ...]


@dataclass(frozen=True, slots=True)
class AnswersReply:
    """One answer for each item, in order."""

    answers: tuple[Answer, ...]
