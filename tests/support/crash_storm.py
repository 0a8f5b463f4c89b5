"""When the next blow of a storm falls, on whom, and what it does. Dice and a clock that is given; touches nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from crash_case import Storm

ALL_AT_ONCE = 0.15
STOPPED_INSTEAD = 0.2
MOST_BEFORE = 0.1
"""How often a blow falls on everybody, how often it stops one instead of killing it, and how many seconds go by before
the first, at most: a run may be over in half a second."""


@dataclass(frozen=True, slots=True)
class Blow:
    """What falls on whom."""

    act: Literal["kill", "stop"]
    victims: Sequence[str]


class Weather:
    """One storm, or none. Owner: whoever drives the run."""

    def __init__(self, storm: Storm | None) -> None:
        self._storm = storm
        self._dice = random.Random(storm.seed if storm else 0)
        self._left = storm.blows if storm else 0
        self._next = 0.0

    def blow(self, now: float, alive: Sequence[str]) -> Blow | None:
        """Return the blow that falls now, if one does. Asked only while an execution is in flight."""
        storm = self._storm
        if storm is None or not self._left:
            return None
        if not self._next:
            first = self._left == storm.blows
            wait = self._dice.uniform(0, MOST_BEFORE) if first else self._dice.expovariate(1 / storm.mean_seconds)
            self._next = now + wait
        if now < self._next:
            return None
        self._next = 0.0
        if not alive:
            return None
        self._left -= 1
        victims = alive if self._dice.random() < ALL_AT_ONCE else [self._dice.choice(alive)]
        stops = len(victims) == 1 and self._dice.random() < STOPPED_INSTEAD
        return Blow("stop" if stops else "kill", victims)
