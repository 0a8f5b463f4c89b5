"""Starts by the calendar, as people and programs make and see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perdure.core.codec import Json

Missed = Literal["skip", "one", "all"]
"""What becomes of ticks that nobody was there for: none is made up for, the latest is, or all are, oldest first, up to
`MOST_MADE_UP`."""
MOST_MADE_UP = 100
Overlap = Literal["allow", "skip"]
"""What becomes of a tick while what the schedule began last has not ended: it begins another one, or nothing."""


@dataclass(frozen=True, slots=True)
class ScheduleRequest:
    """A schedule to be made."""

    name: str
    spec: dict[str, Json]
    """What it begins: an agent or a durable function, compiled to JSON. It stays as it is now."""
    input: Json
    cron: str
    """Minute, hour, day of the month, month, day of the week."""
    zone: str = "UTC"
    """The time zone that `cron` is read in."""
    missed: Missed = "one"
    tags: tuple[str, ...] = ()
    """Of what it begins."""
    overlap: Overlap = "allow"


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as it stands."""

    name: str
    agent: str
    cron: str
    zone: str
    missed: str
    input: Json
    paused: bool
    next_ms: int | None
    """Of the next tick; None while it is paused."""
    last_tick_ms: int | None
    """Of the last tick that began an execution, and which one that was:"""
    last_execution: str | None
    created_by: str
    created_ms: int
    tags: tuple[str, ...] = ()
    """Of what it begins."""
    overlap: str = "allow"
    skipped: int = 0
    """Ticks that began nothing, because what it had begun last had not ended; and the last one of them:"""
    last_skipped_ms: int | None = None
