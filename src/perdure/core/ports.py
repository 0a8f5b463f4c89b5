"""What the rest of the code may know of time, of chance, and of what texts mean. Nothing else reads a clock or rolls
dice.

`perdure.system` has the real ones; `perdure.testing` has ones that a test moves by hand. What knows what texts mean is
an extra: `perdure.models.vectors`.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class Embedder(Protocol):
    """Makes vectors of texts, alike where the texts mean alike. Blocks while it does; safe from any thread."""

    @property
    def model(self) -> str:
        """What the vectors are of: those of another model cannot be compared. The name of a later one sorts behind."""
        ...

    def vectors(self, texts: Sequence[str]) -> list[str]:
        """Return the vector of each text, to be kept as it is; empty for a text of which the model knows nothing."""
        ...

    def likeness(self, text: str, vectors: Sequence[str]) -> Sequence[float]:
        """Return how like a text each vector is, from -1 to 1.

        0 for all if the model knows nothing of the text, and for what is no vector of this model: a damaged one is
        like nothing.
        """
        ...
