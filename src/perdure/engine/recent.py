"""How many executions were begun lately, in equal parts of a time: one query, with a bound. Reads rows only."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.core import states
from perdure.engine.query_list import id_at
from perdure.store.protocol import Reads

PARTS = 48
MOST_COUNTED = 10_000
"""Executions that are counted, the newest first."""
_SLACK_MS = 60_000
"""How far the clock of whoever made an id may be off from the store's, for its execution to be counted."""
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Recent:
    """What was begun in each part of a time, the oldest first."""

    from_ms: int
    part_ms: int
    begun: tuple[int, ...]
    failed: tuple[int, ...]
    """Of those begun in a part, how many have failed by now."""
    known_from_ms: int
    """Parts before it are not counted to their end: there were more executions than are counted."""


def recent_of(reads: Reads, company: str, now_ms: int, hours: int) -> Recent:
    """Return what a company's executions of the last `hours` hours were, `PARTS` of them in all."""
    part_ms = hours * _HOUR_MS // PARTS
    from_ms = now_ms - PARTS * part_ms
    rows = reads.rows(
        "begun_lately",
        company=company,
        above=id_at(from_ms, -_SLACK_MS),
        from_ms=from_ms,
        part_ms=part_ms,
        most=MOST_COUNTED,
    )
    begun, failed = [0] * PARTS, [0] * PARTS
    for row in rows:
        part = min(row["part"], PARTS - 1)  # of a server whose clock is ahead
        begun[part] += row["n"]
        failed[part] += row["n"] if row["state"] == states.Execution.FAILED else 0
    whole = sum(begun) < MOST_COUNTED
    known_from_ms = from_ms if whole else min(row["first_ms"] for row in rows)
    return Recent(from_ms, part_ms, tuple(begun), tuple(failed), known_from_ms)
