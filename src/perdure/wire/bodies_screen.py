"""What the frames of a user interface's event stream hold, and how it is signed in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from perdure.core.events import Event
from perdure.core.live import Delta, Reset
from perdure.core.views import ExecutionSummary

_STRICT: dict[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class FeedExecutions:
    """Executions that are new or stand elsewhere than before; each as it stands now."""

    items: tuple[ExecutionSummary, ...]


@dataclass(frozen=True, slots=True)
class FeedApprovals:
    """How many decisions are waited for now."""

    open: int


@dataclass(frozen=True, slots=True)
class FeedLog:
    """What came to a log, in order."""

    execution: str
    items: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class FeedLive:
    """What a model says in one execution while it is still at it: a frame `delta`, or `reset`. In no log."""

    execution: str
    news: Delta | Reset


@dataclass(frozen=True, slots=True)
class FeedOf:
    """Whose log has ended, or is unknown."""

    execution: str


@dataclass(frozen=True, slots=True)
class CountsView:
    """How many executions are in each state."""

    counts: dict[str, int]
    most: int
    """No count goes higher: that many means that many or more."""


@dataclass(frozen=True, slots=True)
class TickList:
    """When a schedule begins something next, in order; while it is paused, when it would."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HeldView:
    """How much a worker has under way."""

    worker: str
    """Its id; it may be gone already, and what it held not yet be given to another."""
    held: int
    """Tasks that it has leased or begun."""


@dataclass(frozen=True, slots=True)
class HeldList:
    """Those workers that have something under way."""

    items: tuple[HeldView, ...]


@dataclass(frozen=True, slots=True)
class SignInBody:
    """`POST /v1/session`: a link's secret."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    link: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LinkView:
    """Where a browser signs in, once."""

    path: str = field(repr=False)
    """To be appended to the server's address. What follows `#` is never sent to a server by opening it."""
    expires_ms: int


@dataclass(frozen=True, slots=True)
class KeyName:
    """A key, without what it is."""

    name: str
    """In whose name it acts."""
    begins: str
    """Its first characters, by which its owner knows it."""
    created_ms: int


@dataclass(frozen=True, slots=True)
class KeyNames:
    """A company's keys, the oldest first."""

    items: tuple[KeyName, ...]
    sessions: int
    """Browsers that are signed in."""


@dataclass(frozen=True, slots=True)
class SessionView:
    """Who asks."""

    name: str
    """Of the key."""
    company: str
    by: Literal["key", "session", "nothing"]
    """What says so. `nothing`: this server asks for no key."""
