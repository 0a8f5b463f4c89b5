"""One phase of the long crash run: what it is given, and what it has to tell. `crash_long.PHASES` lists them.

A phase counts under names that people can read, and says what it broke; how much is due, and how it is shown, is the
business of whoever runs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Room:
    """What a phase may use."""

    until: float
    """By the monotonic clock: nothing is begun after it, and what was begun is brought to its end."""
    seed: int = 1
    """The first of its seeds, or what they are derived from."""
    jobs: int = 2
    """Runs at a time."""


@dataclass(slots=True)
class Tally:
    """What one phase came to."""

    name: str
    counts: Counter[str] = field(default_factory=Counter[str])
    """`runs`, `kills`, `stops`, `steps`, `effects`, `uncertain`, `seeds`, `virtual seconds` and whatever else is worth
    telling: each is summed up over the phases that count it."""
    broken: Counter[str] = field(default_factory=Counter[str])
    """Violations by the promise that they break."""
    violations: list[str] = field(default_factory=list[str])
    """Each in one sentence, with the command or the folder that shows it again."""
    resolved: Counter[str] = field(default_factory=Counter[str])
    """Uncertain effects, by how each was resolved."""
    seen: set[str] = field(default_factory=set[str])
    """Failpoints that were passed."""
    not_covered: list[str] = field(default_factory=list[str])
    """What could not be done here, with the reason; or what the phase does not do."""
    seconds: float = 0.0

    def violated(self, promise: str, what: str) -> None:
        """Add one violation. `promise` is `P1` to `P9`, or a word for what else went wrong."""
        self.broken[promise] += 1
        self.violations.append(what)


@dataclass(frozen=True, slots=True)
class Phase:
    """One way to look for a broken promise."""

    name: str
    run: Callable[[Room, Tally], None]
    """Does it, adding to the tally as it goes. Raises only if it could not be done at all."""
    share: float
    """Of the time, in parts: what earlier phases left is divided among the later ones."""
    whole: bool = False
    """It has to be done to its end, so it may take all the time there is."""
    due: dict[str, int] = field(default_factory=dict[str, int])
    """What it has to come to in a run of an hour; a shorter run owes its part, and the run fails without it."""
