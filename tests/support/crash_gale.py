"""What falls on a cluster next, on whom, and when. Dice and a clock that is given; touches nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from crash_case import Storm

Act = Literal["kill", "kill all", "stop", "roll", "crash", "end sessions", "cut commits", "cut off", "hide"]
WEIGHTS: dict[Act, int] = {
    "kill": 40,
    "kill all": 6,
    "stop": 20,
    "roll": 4,
    "crash": 6,
    "end sessions": 8,
    "cut commits": 10,
    "cut off": 6,
    "hide": 4,
}
"""One killed; all workers or all servers; one stopped past its lease; all servers and workers replaced one by one; the
database crashed; sessions ended; the next answers to COMMITs lost; a server that reaches the database no more, or
whom no worker and no client reaches."""
OF_THE_NETWORK: tuple[Act, ...] = ("cut off", "hide")
TOLD: dict[Act, str] = {
    "roll": "clusters replaced one by one",
    "crash": "database crashes",
    "cut off": "servers cut off from the database",
    "hide": "servers cut off from workers and clients",
}
"""Under what those are counted that nothing else counts."""
MOST_BEFORE = 0.3


@dataclass(frozen=True, slots=True)
class Blow:
    """What falls on whom."""

    act: Act
    victims: Sequence[str] = ()


class Gale:
    """One storm over a cluster, or none. Owner: whoever drives the run."""

    def __init__(self, storm: Storm | None, acts: Sequence[Act]) -> None:
        """`acts`: those that can be done here."""
        self.dice = random.Random(storm.seed if storm else 0)
        self.left = storm.blows if storm else 0
        self._storm = storm
        self._acts = acts
        self._next = 0.0

    def blow(self, now: float, alive: Sequence[str]) -> Blow | None:
        """Return the blow that falls now, if one does. Asked only while an execution is in flight."""
        if self._storm is None or not self.left:
            return None
        if not self._next:
            first = self.left == self._storm.blows
            wait = self.dice.uniform(0, MOST_BEFORE) if first else self.dice.expovariate(1 / self._storm.mean_seconds)
            self._next = now + wait
        if now < self._next:
            return None
        self._next = 0.0
        self.left -= 1
        return self._choose(alive)

    def _choose(self, alive: Sequence[str]) -> Blow | None:
        act = self.dice.choices(self._acts, [WEIGHTS[one] for one in self._acts])[0]
        match act:
            case "kill" | "stop":
                return Blow(act, [self.dice.choice(alive)]) if alive else None
            case "kill all":
                kind = self.dice.choice(("server", "worker"))
                return Blow(act, [one for one in alive if one.startswith(kind)])
            case _:
                return Blow(act)
