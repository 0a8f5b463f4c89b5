"""How long executions stood still that nobody kept waiting: by their logs, and by when what befell the system.

Pure. A gap counts if what ends it is the system's to do. Of a gap in which something befell the system, or was over,
the part after the last of that counts: what came before has a cause of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from perdure.testing.evidence import History

OURS = frozenset(
    {
        *("taken_over", "step_recorded", "task_scheduled", "task_begun", "attempt_lost", "task_completed"),
        *("task_failed", "task_uncertain", "waitpoint_opened", "child_started", "completed", "failed"),
    }
)
"""Kinds of events that wait for no person, no timer and no other execution."""


@dataclass(frozen=True, slots=True)
class Stall:
    """One execution stood still."""

    ms: int
    execution: str
    seq: int
    """Of the event that ended it."""
    kind: str

    def __str__(self) -> str:
        return f"{self.execution} stood still for {self.ms} ms until {self.kind} (seq {self.seq})"


NO_STALL = Stall(0, "", 0, "")


def longest_stall(histories: Iterable[History], befell_ms: Sequence[int]) -> Stall:
    """Return the longest. `befell_ms`: when something befell the system or was over, by the store's clock, in order."""
    found = NO_STALL
    for history in histories:
        for before, event in pairwise(history.events):
            since = _last(befell_ms, event.at_ms, before.at_ms)
            if event.kind in OURS and event.seq > history.inherited + 1 and event.at_ms - since > found.ms:
                found = Stall(event.at_ms - since, history.id, event.seq, event.kind)
    return found


def _last(moments: Sequence[int], until: int, least: int) -> int:
    """Return the last of the moments that are no later than `until`, or `least` if that is later."""
    at = bisect_right(moments, until)
    return max(least, moments[at - 1]) if at else least
