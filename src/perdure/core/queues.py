"""What people say of queues, and what they see of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure.core.work import SERVER_QUEUE
from perdure.errors import InvalidInput

MOST_AT_ONCE = 1_000_000
MOST_SECONDS = 31 * 24 * 3600.0
LEAST_SECONDS = 0.001
MOST_KEY = 200
"""Characters of a `limit_key`."""
MOST_URGENT = 9
"""The highest priority. 0, the lowest, is the default."""
LEVEL_MS = 7 * 24 * 3_600_000
"""What each level of a priority is worth in time: who is one level higher stands where it would if it had come a week
earlier. So the higher goes first, and the lower is passed over for so long and no longer."""
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How much of a queue may be under way. None: no limit."""

    concurrency: int | None = None
    """Tasks that workers hold at once."""
    rate: int | None = None
    """Tasks given to workers within `per_seconds`, and at most that many at once after a quiet time."""
    per_seconds: float | None = None
    """1 if a `rate` comes without."""
    per_key: int | None = None
    """Tasks of each `limit_key` that workers hold at once; those without one do not count."""

    @property
    def period_ms(self) -> int | None:
        """Return `per_seconds` as rows have it."""
        if self.rate is None:
            return None
        return round((1.0 if self.per_seconds is None else self.per_seconds) * 1000)


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue as it stands."""

    name: str
    paused: bool
    concurrency: int | None
    rate: int | None
    per_seconds: float | None
    backlog: int
    """Tasks that are due and that nobody has, those of paused executions included."""
    leased: int
    """Tasks that workers hold."""
    oldest_ms: int | None
    """Since when the first of the backlog is due."""
    changed_by: str = ""
    """Who set or paused it last, and when; None if nobody ever did:"""
    changed_ms: int | None = None
    per_key: int | None = None


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which calls that failed for good are meant: all if empty."""

    agent: str | None = None
    tool: str | None = None
    queue: str | None = None
    since_ms: int | None = None
    """Failed then or later."""


@dataclass(frozen=True, slots=True)
class DeadTask:
    """A call that failed for good, in an execution that goes on."""

    execution: str
    address: str
    agent: str
    tool: str
    queue: str
    attempt: int
    """How often it was tried."""
    failed_ms: int
    code: str
    error: str


@dataclass(frozen=True, slots=True)
class DeadPage:
    """A page of them, the newest first."""

    items: tuple[DeadTask, ...]
    cursor: str | None
    """Give it back to get the next page; None on the last."""


def check_queue(name: object) -> None:
    """Raise `InvalidInput` (`bad_queue`) for what no tool can name as its queue."""
    if name != SERVER_QUEUE and not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise _bad(
            f"a queue's name is 1 to 64 letters, digits, `_`, `.`, `:` and `-`, or {SERVER_QUEUE} for the tools that "
            f"servers call; found {str(name)[:80]!r}"
        )


def check_priority(priority: int) -> None:
    """Raise `InvalidInput` (`bad_start`) for a priority that cannot be."""
    if not 0 <= priority <= MOST_URGENT:
        raise InvalidInput(
            f"priority should be 0, which is what starts have that give none, to {MOST_URGENT}, the most urgent; found "
            f"{priority}.",
            code="bad_start",
        )


def check_limit_key(limit_key: str | None) -> None:
    """Raise `InvalidInput` (`bad_start`) for a key that cannot be; None is no key."""
    if limit_key is not None and not (1 <= len(limit_key) <= MOST_KEY and limit_key.isprintable()):
        raise InvalidInput(
            f"limit_key should be 1 to {MOST_KEY} printable characters, or not be there; found {limit_key[:80]!r}"
            f"{f', which has {len(limit_key)}' if len(limit_key) > MOST_KEY else ''}.",
            code="bad_start",
        )


def ahead_ms(priority: int) -> int:
    """Return how far ahead of its time something stands in a line."""
    return priority * LEVEL_MS


def check_limits(limits: QueueLimits) -> None:
    """Raise `InvalidInput` (`bad_queue`), naming the value that cannot be."""
    for what, value in (("concurrency", limits.concurrency), ("rate", limits.rate), ("per_key", limits.per_key)):
        if value is not None and not 1 <= value <= MOST_AT_ONCE:
            none = "; to give out nothing, pause the queue" if value == 0 else ""
            raise _bad(f"{what} should be 1 to {MOST_AT_ONCE:,}, or nothing for no limit; found {value}{none}")
    seconds = limits.per_seconds
    if seconds is None:
        return
    if limits.rate is None:
        raise _bad(f"per_seconds is {seconds:g} and there is no rate; say how many there may be in that time: rate")
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise _bad(f"per_seconds should be {LEAST_SECONDS:g} to {MOST_SECONDS:.0f} (31 days); found {seconds:g}")


def _bad(why: str) -> InvalidInput:
    return InvalidInput(f"{why}.", code="bad_queue")
