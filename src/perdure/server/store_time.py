"""What the store's clock says, asked for rarely: it judges leases and timers, and the process's own clock may differ.

On SQLite the two part when the wall clock is set back; on PostgreSQL they are clocks of two machines.
"""

from __future__ import annotations

from perdure.core.ports import Clock
from perdure.engine.sweep import tell_time
from perdure.server.bridge import Bridge

ASK_EVERY_MS = 60_000
"""How long a difference between the clocks is believed; asking costs a small commit."""
STEP_MS = 100
"""A wall clock that is off by more, measured by the monotonic one, was set."""


class StoreTime:
    """Owner: one task."""

    def __init__(self, bridge: Bridge, clock: Clock) -> None:
        self._bridge = bridge
        self._clock = clock
        self._ahead_ms = 0
        """How far the store's clock is ahead of the wall clock."""
        self._asked: tuple[int, int] | None = None
        """Wall and monotonic clock when that was found out."""

    async def now_ms(self) -> int:
        """Return the store's clock, to a few milliseconds. Asks the store first, once a minute, and after a step."""
        wall_ms, monotonic_ms = self._clock.wall_ms(), self._clock.monotonic_ms()
        if self._asked is None or self._outdated(*self._asked, wall_ms, monotonic_ms):
            self._ahead_ms = await self._bridge.run(tell_time, None) - wall_ms
            self._asked = wall_ms, monotonic_ms
        return wall_ms + self._ahead_ms

    @staticmethod
    def _outdated(then_wall_ms: int, then_monotonic_ms: int, wall_ms: int, monotonic_ms: int) -> bool:
        passed_ms = monotonic_ms - then_monotonic_ms
        return passed_ms >= ASK_EVERY_MS or abs(wall_ms - then_wall_ms - passed_ms) > STEP_MS
