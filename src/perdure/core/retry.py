"""How long to wait before trying again, and when trying again has no sense any more."""

from __future__ import annotations

from perdure.core.rules import TaskRules

LONGEST_MS = 366 * 86_400_000
"""No pause is longer, whoever asks for it."""


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
