"""Queues as programs see them and hold them back: `runtime.queues`. Every verb has an async twin."""

from __future__ import annotations

from perdure.client.handle import Connection
from perdure.core.queues import QueueLimits, QueueView


class Queues:
    """The queues of one runtime's server. A queue is there as soon as a tool names it; nobody makes it."""

    def __init__(self, runtime: Connection) -> None:
        self._runtime = runtime

    async def get_async(self, name: str) -> QueueView:
        """Return one, whether or not it holds anything. Raises `InvalidInput` (`bad_queue`)."""
        return await self._runtime.join(self._runtime.api.queue(name))

    def get(self, name: str) -> QueueView:
        return self._runtime.wait(self.get_async(name))

    async def set_async(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        rate: int | None = None,
        per_seconds: float | None = None,
        per_key: int | None = None,
        by: str = "",
    ) -> QueueView:
        """Set all of a queue's limits, for all servers, from the next lease on: one that is not given is lifted.

        `concurrency`: tasks that workers hold at once; `per_key`: of each `limit_key`. `rate`: tasks given out within
        `per_seconds` (default 1). `by`: who says so; `changed_by` shows it, over HTTP behind the key's name.
        Raises `InvalidInput` (`bad_queue`), naming the value.
        """
        limits = QueueLimits(concurrency, rate, per_seconds, per_key)
        return await self._runtime.join(self._runtime.api.set_queue(name, limits, by=by))

    def set(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        rate: int | None = None,
        per_seconds: float | None = None,
        per_key: int | None = None,
        by: str = "",
    ) -> QueueView:
        limits = {"concurrency": concurrency, "rate": rate, "per_key": per_key}
        return self._runtime.wait(self.set_async(name, per_seconds=per_seconds, by=by, **limits))

    async def pause_async(self, name: str, *, by: str = "") -> QueueView:
        """Give nothing out until it is resumed. What is under way goes on."""
        return await self._runtime.join(self._runtime.api.pause_queue(name, by=by))

    def pause(self, name: str, *, by: str = "") -> QueueView:
        return self._runtime.wait(self.pause_async(name, by=by))

    async def resume_async(self, name: str, *, by: str = "") -> QueueView:
        return await self._runtime.join(self._runtime.api.resume_queue(name, by=by))

    def resume(self, name: str, *, by: str = "") -> QueueView:
        return self._runtime.wait(self.resume_async(name, by=by))

    async def list_async(self) -> list[QueueView]:
        """Return, by name, those that hold tasks and those that somebody set or paused."""
        return await self._runtime.join(self._runtime.api.queues())

    def list(self) -> list[QueueView]:
        return self._runtime.wait(self.list_async())
