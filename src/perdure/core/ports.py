"""What the rest of the code may know of time and chance. Nothing else reads a clock or rolls dice.

`perdure.system` has the real ones; `perdure.testing` has ones that a test moves by hand.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time as this process sees it. The store's clock, not this one, judges leases and timers."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970. May jump: for stamps and display, never for durations."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back, from an arbitrary start. For durations and deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`. Never used to guess that something has happened."""
        ...


class Random(Protocol):
    """Chance, for ids and jitter."""

    def token(self, size: int) -> bytes:
        """Return `size` unpredictable bytes."""
        ...

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""
        ...
