"""How long executions stood still that nobody kept waiting: by their logs, and by when what befell the system.

Pure. A gap counts if what ends it is the system's to do, and if it is no pause between two tries. Of a gap in which
something befell the system, or was over, the part after the last of that counts: what came before has another cause.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from perdure.testing.evidence import Event, History

OURS = frozenset(
    {
        *("taken_over", "step_recorded", "task_scheduled", "task_begun", "attempt_lost", "task_completed"),
        *("task_failed", "task_uncertain", "waitpoint_opened", "child_started", "completed", "failed"),
    }
)
"""Kinds of events that wait for no person, no timer and no other execution."""
PAUSES = frozenset({"attempt_failed", "task_uncertain", "timer_set"})
"""Kinds of events after which something may be waited for."""


@dataclass(frozen=True, slots=True)
class Stall:
    """One execution stood still."""

    ms: int
    execution: str
    seq: int
    """Of the event that ended it."""
    what: str
    """From which event until which, at which addresses."""

    def __str__(self) -> str:
        return f"{self.execution} stood still for {self.ms} ms: {self.what} (seq {self.seq})"


NO_STALL = Stall(0, "", 0, "")


def longest_stall(histories: Iterable[History], befell_ms: Sequence[int]) -> Stall:
    """Return the longest. `befell_ms`: when something befell the system or was over, by the store's clock, in order."""
    found = NO_STALL
    for history in histories:
        for before, event in pairwise(history.events):
            since = _last(befell_ms, event.at_ms, before.at_ms)
            counts = event.kind in OURS and before.kind not in PAUSES and event.seq > history.inherited + 1
            if counts and event.at_ms - since > found.ms:
                what = f"from {_name(before)} to {_name(event)} in {event.at_ms - before.at_ms} ms"
                found = Stall(event.at_ms - since, history.id, event.seq, what)
    return found


def _name(event: Event) -> str:
    return f"{event.kind} {event.address}".strip()


def _last(moments: Sequence[int], until: int, least: int) -> int:
    """Return the last of the moments that are no later than `until`, or `least` if that is later."""
    at = bisect_right(moments, until)
    return max(least, moments[at - 1]) if at else least
