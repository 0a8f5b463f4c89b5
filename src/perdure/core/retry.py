"""How long to wait before trying again, and when trying again has no sense any more."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

from perdure.core.rules import TaskRules

LONGEST_MS = 366 * 86_400_000
"""No pause is longer, whoever asks for it."""
LONGEST_HINT_MS = 86_400_000
"""A `Retry-After` that asks for more is taken as this."""


def next_pause(rules: TaskRules, attempt: int, chance: float, asked_ms: int | None) -> int:
    """Return the pause, in milliseconds, before try number `attempt`: what was asked for, else what the policy says."""
    return pause_before(rules, attempt, chance) if asked_ms is None else min(max(asked_ms, 0), LONGEST_MS)


def pause_before(rules: TaskRules, attempt: int, chance: float) -> int:
    """Return the pause, in milliseconds, before try number `attempt` (2 or more).

    It grows by `factor` up to `ceiling_ms`, and `chance` (0 to 1) says how much of the jitter is cut off: the result
    lies between `1 - jitter` of the whole pause and all of it, so it is never negative and never above the ceiling.
    """
    try:
        whole = min(rules.pause_ms * rules.factor ** (attempt - 2), rules.ceiling_ms)
    except OverflowError:
        whole = rules.ceiling_ms if rules.pause_ms else 0
    return round(whole * (1 - rules.jitter * min(max(chance, 0.0), 1.0)))


def pause_asked_for(text: str, now_ms: int) -> int | None:
    """Return the pause, in milliseconds, that a `Retry-After` asks for: seconds or a date. None if it says neither.

    `now_ms` is the moment at which it was said, by the clock of who said it where that is known. Never negative; what
    asks for more than a day is taken as a day: a header is a hint, and a broken one shall not hold a run for years.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:12]) * 1000, LONGEST_HINT_MS)
    when = instant_of(text)
    return None if when is None else min(max(when - now_ms, 0), LONGEST_HINT_MS)


def instant_of(text: str) -> int | None:
    """Return an HTTP date as milliseconds since 1970; None if it is none."""
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
