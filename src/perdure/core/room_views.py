"""What is seen of a room: the same for people, for agents and over HTTP. Pure shapes; for what is done: `rooms`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MemberView:
    """A company in a room, or an agent of one."""

    company: str
    name: str
    """Of the agent; empty for the company itself."""
    state: str
    on_crash: str
    changed_ms: int


@dataclass(frozen=True, slots=True)
class RoomView:
    """A room. Whoever is only invited is shown no members."""

    id: str
    name: str
    host: str
    state: str
    """How the asking company stands to it."""
    created_by: str
    created_ms: int
    last_seq: int
    """Of its ledger."""
    members: tuple[MemberView, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message."""

    id: str
    seq: int
    company: str
    author: str
    kind: str
    text: str
    to: tuple[str, ...]
    thread: str
    at_ms: int
    steered_by: tuple[str, ...] = ()
    """Whose text was before the agent that wrote it, its own company's apart."""


@dataclass(frozen=True, slots=True)
class RoomTaskView:
    """A task in a room."""

    id: str
    seq: int
    company: str
    author: str
    title: str
    to: str
    thread: str
    state: str
    holder: str
    """Who claimed or closed it."""
    result: str
    opened_ms: int
    changed_ms: int
    steered_by: tuple[str, ...] = ()
    """As of messages; of its title."""


@dataclass(frozen=True, slots=True)
class MemoryView:
    """A line of a room's memory that the asking company may read."""

    id: str
    seq: int
    company: str
    author: str
    text: str
    readers: tuple[str, ...]
    source: str
    at_ms: int
    steered_by: tuple[str, ...] = ()
    """As of messages; and `private:` and a company, a line of which for some alone the agent had read."""


@dataclass(frozen=True, slots=True)
class RightsView:
    """What a company said may be done in a room."""

    room: str
    company: str
    revision: int
    """0: it said nothing, and the defaults hold."""
    document: dict[str, Any]
    changed_by: str
    changed_ms: int


@dataclass(frozen=True, slots=True)
class StopView:
    """Somebody who does nothing in a room for now."""

    member: str
    """`the room`, a company, or one of its agents."""
    by: str
    reason: str
    at_ms: int
    everywhere: bool = False
    """A company that is stopped in all rooms."""


@dataclass(frozen=True, slots=True)
class WentOn:
    """What came of lifting a stop."""

    lifted: bool
    """False: there was none."""
    wakes: int
    """That had been paused by it, and go on."""


@dataclass(frozen=True, slots=True)
class WakeView:
    """A claim, and the execution that it owns, which may have been deleted long after it ended."""

    company: str
    agent: str
    cause: str
    execution: str
    state: str | None
    at_ms: int
