"""When to look for executions that ended long ago, for large values that no log refers to, and for what was told of
replies by who died: seldom, by reads of indexes; soon again while there are more.
"""

from __future__ import annotations

import re

from perdure.core.ports import Clock
from perdure.engine.blobs import FIRST, DropBlobs, drop_blobs, look_for_unused
from perdure.engine.relay import any_left, sweep_relay
from perdure.engine.retention import OFF_MS, over_ms, set_retention
from perdure.errors import InvalidInput
from perdure.log import get_log
from perdure.server.bridge import Bridge
from perdure.server.store_time import StoreTime

log = get_log(__name__)

FIRST_LOOK_MS = 30_000
"""After the start: a program that only looks in deletes nothing."""
LOOK_MS = 300_000
"""Between two looks while nothing is past its time."""

_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 24 * 3_600_000, "w": 7 * 24 * 3_600_000}


def parse_retention(text: str) -> int:
    """Return how long to keep what ended, in milliseconds, from `30d`, `12h`, `90m`, `2w`; `off` and `0` are for ever.

    Raises InvalidInput (`bad_retention`).
    """
    given = text.strip().lower()
    if given in ("off", "0"):
        return OFF_MS
    found = re.fullmatch(r"(\d{1,6})\s*([mhdw])", given)
    if found is None or int(found[1]) == 0:
        raise InvalidInput(
            f"retention is {text!r}; expected how long ended executions are kept, such as 30d, 12h or 90m, or `off` to "
            "keep all of them.",
            code="bad_retention",
        )
    return int(found[1]) * _UNITS_MS[found[2]]


class Retention:
    """One server's share. Owner: the task that sweeps."""

    def __init__(self, bridge: Bridge, clock: Clock, wanted_ms: int | None = None) -> None:
        """`wanted_ms`: what to tell the store at the start about how long it keeps what ended; None: nothing."""
        self._bridge = bridge
        self._clock = clock
        self._wanted_ms = wanted_ms
        self._next_ms = clock.monotonic_ms() + FIRST_LOOK_MS
        self._looked = FIRST
        """How far large values were looked at."""

    async def due(self, store_time: StoreTime) -> bool:
        """Say whether to make a pass. Costs nothing between two looks."""
        if self._wanted_ms is not None:
            await self._bridge.run(set_retention, self._wanted_ms)
            days = None if self._wanted_ms >= OFF_MS else self._wanted_ms / 86_400_000
            log.info("retention.set", keep_days=days)
            self._wanted_ms = None
        now = self._clock.monotonic_ms()
        if now < self._next_ms:
            return False
        self._next_ms = now + LOOK_MS
        await self._drop_blobs(await store_time.now_ms())
        await self._sweep_relay(await store_time.now_ms())
        over = await self._bridge.read(over_ms)
        return over is not None and over <= await store_time.now_ms()

    async def _drop_blobs(self, now_ms: int) -> None:
        """Forget a few large values that no log refers to, if the next ones that are looked at have any.

        Then these are looked at again with the next round; else, with the next look, those behind them.
        """
        after = self._looked
        found, behind = await self._bridge.read(lambda reads: look_for_unused(reads, now_ms, after))
        dropped = await self._bridge.run(drop_blobs, DropBlobs(after=after)) if found else 0
        if not dropped:
            self._looked = behind
            return
        log.info("values.forgotten", values=dropped)
        self.more()

    async def _sweep_relay(self, now_ms: int) -> None:
        """Take away what servers that died had told others of replies in the making, if they had told anything."""
        if await self._bridge.read(lambda reads: any_left(reads, now_ms)):
            await self._bridge.run(sweep_relay, None)

    def more(self) -> None:
        """Make the next pass with the next round of sweeps: a pause for whoever else writes."""
        self._next_ms = self._clock.monotonic_ms()
