"""The slots of a worker: how many bodies run at once, and whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.core.ports import Clock
from perdure.worker.grip import Grip
from perdure.worker.pace import rest


class Slots:
    """The table of attempts. A slot is taken from the lease until the body has ended, reported or not."""

    def __init__(self, size: int, clock: Clock) -> None:
        self._size, self._clock = size, clock
        self._grips: dict[Grip, None] = {}
        """In the order in which they were taken."""
        self.changed = asyncio.Event()
        """A slot, an answer, the connection or the wish to stop: something may be possible that was not.
        Whoever waits for it clears it before looking."""

    @property
    def taken(self) -> int:
        """How many are in use."""
        return len(self._grips)

    @property
    def left(self) -> int:
        """How many are free."""
        return self._size - len(self._grips)

    @property
    def grips(self) -> list[Grip]:
        """Whose they are now."""
        return list(self._grips)

    def take(self, grip: Grip) -> None:
        """Use one for `grip`."""
        self._grips[grip] = None

    def free(self, grip: Grip) -> None:
        """Give back the one of `grip`."""
        self._grips.pop(grip, None)
        self.changed.set()

    async def until_free(self, left_ms: Callable[[], int]) -> None:
        """Return when all are free, or when `left_ms`, asked again after each change, says that no time is left."""
        while True:
            self.changed.clear()
            left = left_ms()
            if not self._grips or left <= 0:
                return
            await rest(self._clock, left / 1000, self.changed)
