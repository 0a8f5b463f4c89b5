"""A clock that waits for nothing and remembers for how long it was asked to."""

from __future__ import annotations


class WaitingClock:
    """`Clock` whose sleeps return at once; `slept` holds them in order."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def wall_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
