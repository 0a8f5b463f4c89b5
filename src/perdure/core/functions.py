"""What passes between whoever holds the executions of durable functions and the workers that run them.

The same in one process and over HTTP. Instants never travel: workers are given durations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perdure.core.codec import Json
from perdure.core.events import Event
from perdure.core.tokens import Issuer
from perdure.core.work import LEASE_MS, Answer, FunctionLane
from perdure.errors import InvalidInput

KIND = "durable"
"""What `kind` says in the definition of a durable function; an agent's has none."""
MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A worker's wish for executions. The same `nonce` gets the same ones, so a lost reply is asked for again."""

    worker: str
    """Random per boot: never a host name, never reused."""
    nonce: str
    lanes: tuple[FunctionLane, ...]
    slots: int
    """How many at most; 0 only listens."""
    lease_ms: int = LEASE_MS
    known: Mapping[str, int] = field(default_factory=dict[str, int])
    """Last `seq` of parked executions whose coroutine the worker still has: only newer events are sent."""
    watch: Mapping[str, int] = field(default_factory=dict[str, int])
    """Last `seq` of executions that the worker owns now: the answer comes early when one of them has more."""


@dataclass(frozen=True, slots=True)
class ClaimedExecution:
    """An execution that is now the worker's, until its lease ends. `fence` must accompany all it says about it."""

    execution: str
    name: str
    """Of its durable function."""
    build: str
    """Of the code that it began with."""
    fence: int
    lease_ms: int
    last_seq: int
    active_ms: int
    """How long it was owned so far, all owners together."""
    events: tuple[Event, ...]
    """Above `known`, in order, without a gap; the rest up to `last_seq` is read page by page."""
    tokens: Issuer | None = None
    """Makes the secrets of the tokens that it opens."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The answer to a wish."""

    executions: tuple[ClaimedExecution, ...] = ()
    news: Mapping[str, int] = field(default_factory=dict[str, int])
    """Newest `seq` of watched executions in which something happened."""


@dataclass(frozen=True, slots=True)
class HeldExecution:
    """An execution as its holder names it."""

    execution: str
    fence: int
    outside: str = ""
    """In a renewal: where its code has been waiting for the world outside a step, as file and line; empty: nowhere."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that a holder says in, or asks of, the log of one execution.

    `record`: `seen`, `items`. `events`: `seen`. `park`: `seen`, `active_ms`. `finish`: these, `event` and `data`.
    `halt`: `event`, `reason` and `message`.
    """

    execution: str
    fence: int
    verb: Literal["record", "events", "park", "finish", "halt"]
    seen: int = 0
    items: tuple[dict[str, Json], ...] = ()
    """Each with its `type` beside its fields: see `wire.items`."""
    active_ms: int = 0
    event: Literal["", "complete", "fail", "end", "pause", "stick"] = ""
    data: str = ""
    """JSON text of a terminal event."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an entry contradicts what is recorded, or cannot be recorded: an error as it travels."""

    status: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one entry. Entries are answered one by one; one refusal does not touch the others."""

    answer: Answer
    events: tuple[Event, ...] = ()
    """Those above `seen`, in order and without a gap."""
    more: bool = False
    """There are more events than these: read on after the last."""
    outcome: Literal["", "released", "ended", "held"] = ""
    """What became of `park` and `finish` when it was not news that stopped them."""
    refusal: Refusal | None = None


def is_function(spec: Mapping[str, Json]) -> bool:
    """Say whether a definition is that of a durable function."""
    return spec.get("kind") == KIND


def function_spec(lane: FunctionLane) -> dict[str, Json]:
    """Return the definition of a durable function, as a start carries it."""
    return {"kind": KIND, "name": lane.name, "build": lane.build}


def lane_of(spec: Mapping[str, Json]) -> FunctionLane:
    """Return what `function_spec` wrote. Raises `InvalidInput` (`bad_function`)."""
    name, build = spec.get("name"), spec.get("build")
    if set(spec) != {"kind", "name", "build"} or not isinstance(name, str) or not isinstance(build, str):
        raise InvalidInput(
            f'the definition of a durable function is {{"kind": "{KIND}", "name": …, "build": …}}, both texts; found '
            f"{dict(spec)!r:.200}. Is the client newer than the server? Upgrade the server first.",
            code="bad_function",
        )
    if not 0 < len(name) <= MAX_NAME or len(build) > MAX_NAME:
        raise InvalidInput(
            f"a durable function's name has 1 to {MAX_NAME} characters, and its build at most as many; "
            f"found {len(name)} and {len(build)}.",
            code="bad_function",
        )
    return FunctionLane(name, build)
