"""What passes between whoever holds the tasks and whoever runs them. The same in one process and over HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from perdure.core.codec import Json
from perdure.core.costs import Costs

DEFAULT_QUEUE = "default"
SERVER_QUEUE = "?server"
"""The queue of tools that a server calls itself. No worker can be asked for it: `?` is in no name of a queue."""
LEASE_MS = 30_000
"""How long a leased task stays reserved without a heartbeat."""
ORPHAN_LEASE_MS = 3_000
"""What is left of a worker's leases once its liveness connection closed."""
MAX_PROGRESS = 200
"""Characters of what a body says of how far it is."""
MAX_SAVED_BYTES = 256 * 1024
"""Of what a body saves for its next attempt."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One tool that a worker can run: the address that tasks are sent to."""

    agent: str
    tool: str
    queue: str = DEFAULT_QUEUE


@dataclass(frozen=True, slots=True)
class FunctionLane:
    """One durable function that a worker can run, as one build of its code has it."""

    name: str
    build: str


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A worker's wish for tasks. The same `nonce` gets the same tasks, so a lost reply is asked for again."""

    worker: str
    """Random per boot: never a host name, never reused."""
    nonce: str
    lanes: tuple[Lane, ...]
    slots: int
    """How many tasks at most: the worker's free slots."""
    lease_ms: int = LEASE_MS


@dataclass(frozen=True, slots=True)
class LeasedTask:
    """A reserved task. `fence` must accompany everything its holder says about it."""

    execution: str
    address: str
    agent: str
    tool: str
    queue: str
    args: dict[str, Json]
    delivery: str
    key: str
    """The idempotency key, equal on every attempt."""
    attempt: int
    """1 for the first try."""
    fence: int
    lease_ms: int
    timeout_ms: int
    """For one attempt; 0 is none."""
    saved: str | None = None
    """What an earlier attempt saved last, as JSON text."""


@dataclass(frozen=True, slots=True)
class Held:
    """A task as its holder names it, and, in a heartbeat, what its body said since the last one, as JSON text."""

    execution: str
    address: str
    fence: int
    progress: str | None = None
    saved: str | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """Sent just before the body of an `at_most_once` task starts, or of one whose author says what makes two calls the
    same act. The same `nonce` gets the same answer."""

    execution: str
    address: str
    fence: int
    nonce: str
    intent: str | None = None
    """The act in its author's terms, if the author gave any."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt, a step or an execution failed, in the words shown to people and models."""

    code: str
    message: str
    permanent: bool = False
    """Asking again cannot change it."""
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """How an attempt ended. `completed` carries `value`, `failed` and `cancelled` carry `failure`."""

    execution: str
    address: str
    fence: int
    outcome: Literal["completed", "failed", "cancelled"]
    value: Json = None
    failure: Failure | None = None
    saved: str | None = None
    """What the body saved and no heartbeat has told yet, as JSON text."""
    cost: Costs = field(default_factory=dict[str, str])
    """What its body said that it cost."""


class Answer(StrEnum):
    """The reply to one item. Items are answered one by one; one refusal does not touch the others."""

    ACCEPTED = "accepted"
    ALREADY_ACCEPTED = "already_accepted"
    """The same was said before and counts once."""
    LEASE_LOST = "lease_lost"
    """Somebody else holds it, or it ended: stop, and do not say it again."""
    CONFLICT = "conflict"
    """It contradicts what is recorded."""
    CANCEL = "cancel"
    """Still yours, and somebody wants it stopped."""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker says of itself when it connects, for people to read."""

    worker: str
    name: str
    lanes: tuple[Lane, ...] = field(default=())
    slots: int = 0
    pid: int = 0
    host: str = ""
    machine: str = ""
    """Which boot of which machine it runs on; empty if unknown."""
    lock: str = ""
    """A file there that it keeps locked for life: who gets that lock knows that it is dead. Empty: there is none."""
    functions: tuple[FunctionLane, ...] = field(default=())
