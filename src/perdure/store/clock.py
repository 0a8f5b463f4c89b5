"""The store's clock on SQLite: the process's wall clock, made to go one way only, through restarts too.

PostgreSQL has a clock of its own. Whoever holds the file keeps one of these; what it needs stored, the caller stores.
"""

from __future__ import annotations

from perdure.core.ports import Clock

AHEAD_MS = 100
"""How far ahead of itself the clock reserves time, so that it is stored at most every 100 ms of change."""

_SMALL_LEAD_MS = 2 * AHEAD_MS
"""Of the store's clock over the wall clock: what a crash leaves, and what two clocks make of it by rounding."""


class StoreClock:
    """Milliseconds that never go back.

    `bound_ms` is stored with the data: no transaction was ever given a time beyond the stored bound, so a later owner
    that starts there never falls behind, whatever became of the wall clock. The price: after a crash the clock is up to
    `AHEAD_MS` ahead of the wall clock, and stands still until that has caught up. When the wall clock was set back by
    more than this can explain, the monotonic one carries on.

    Owner: the writer's thread.
    """

    def __init__(self, clock: Clock, bound_ms: int) -> None:
        self._clock = clock
        self._last_ms = bound_ms
        self._read_at_ms = clock.monotonic_ms()
        self.bound_ms = bound_ms

    def now(self) -> int:
        """Read the clock. A result above `bound_ms` may be used only together with storing `next_bound`."""
        monotonic = self._clock.monotonic_ms()
        wall, carried = self._clock.wall_ms(), self._last_ms + monotonic - self._read_at_ms
        # Going on from a small lead would keep it, and the next crash would add to it.
        self._last_ms = carried if carried - wall > _SMALL_LEAD_MS else max(wall, self._last_ms)
        self._read_at_ms = monotonic
        return self._last_ms

    @property
    def last_ms(self) -> int:
        """The latest time given out."""
        return self._last_ms

    @staticmethod
    def next_bound(now_ms: int) -> int:
        """Return the bound to store with a transaction whose time passed the old one."""
        return now_ms + AHEAD_MS
