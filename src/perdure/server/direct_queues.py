"""The verbs about queues in-process: straight to the engine through the bridge."""

from __future__ import annotations

from typing import Literal

from perdure.core.queues import DeadFilter, DeadPage, QueueLimits, QueueView, check_limits, check_queue
from perdure.engine.dead import dead_page
from perdure.engine.queues import ChangeQueue, change_queue, queue_views
from perdure.errors import InvalidInput
from perdure.server.bridge import Bridge
from perdure.server.store_time import StoreTime

MOST_DEAD = 1_000


class DirectQueues:
    """`QueuesApi` of one company."""

    def __init__(self, bridge: Bridge, company: str, time: StoreTime) -> None:
        self._bridge, self._company = bridge, company
        self._time = time

    async def queues(self) -> list[QueueView]:
        now_ms = await self._time.now_ms()
        return await self._bridge.read(lambda reads: queue_views(reads, self._company, now_ms))

    async def queue(self, name: str) -> QueueView:
        check_queue(name)
        now_ms = await self._time.now_ms()
        [found] = await self._bridge.read(lambda reads: queue_views(reads, self._company, now_ms, name))
        return found

    async def set_queue(self, name: str, limits: QueueLimits, *, by: str = "") -> QueueView:
        check_limits(limits)
        return await self._change_queue(name, "limit", by, limits)

    async def pause_queue(self, name: str, *, by: str = "") -> QueueView:
        return await self._change_queue(name, "pause", by)

    async def resume_queue(self, name: str, *, by: str = "") -> QueueView:
        return await self._change_queue(name, "resume", by)

    async def dead_tasks(self, wanted: DeadFilter, *, cursor: str | None = None, limit: int = 50) -> DeadPage:
        if not 1 <= limit <= MOST_DEAD:
            raise InvalidInput(f"limit should be 1 to {MOST_DEAD}, found {limit}.")
        return await self._bridge.read(lambda reads: dead_page(reads, self._company, wanted, cursor, limit))

    async def _change_queue(
        self, name: str, verb: Literal["limit", "pause", "resume"], by: str, limits: QueueLimits | None = None
    ) -> QueueView:
        check_queue(name)
        row = ChangeQueue(self._company, name, verb, limits or QueueLimits(), by)
        await self._bridge.run(change_queue, row)
        return await self.queue(name)
