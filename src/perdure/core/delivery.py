"""What each action may expect of a crash: the delivery modes, and what a failed attempt leads to under each."""

from __future__ import annotations

from enum import StrEnum

from perdure.core import states


class Delivery(StrEnum):
    """Chosen by the author of an action."""

    REPEATABLE = "repeatable"
    """Reads and other calls that change nothing: may run again at will."""
    AT_LEAST_ONCE = "at_least_once"
    """Is done at least once; every attempt carries the same idempotency key. The default for tools."""
    AT_MOST_ONCE = "at_most_once"
    """The body starts once or never. An outcome nobody reported is `uncertain`, and somebody rules."""


class Verdict(StrEnum):
    """What a failed attempt leads to."""

    RETRY = "retry"
    DIE = "die"
    LOSE = "lose"
    """Nobody knows whether it acted."""


def after_failure(*, state: str, attempt: int, max_attempts: int, permanent: bool) -> Verdict:
    """Say what follows a failed attempt of a task in `state`.

    Begun means that it may have acted, so it is never retried. Anything else may be, `max_attempts` times in all,
    unless the failure is of a kind that asking again cannot change.
    """
    if state == states.Task.BEGUN:
        return Verdict.LOSE
    if permanent or attempt >= max_attempts:
        return Verdict.DIE
    return Verdict.RETRY
