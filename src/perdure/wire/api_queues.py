"""The verbs about queues: what they may give, how they stand, and what failed. A part of `wire.api.Api`."""

from __future__ import annotations

from typing import Protocol

from perdure.core.queues import DeadFilter, DeadPage, QueueLimits, QueueView


class QueuesApi(Protocol):
    """The queues of one company. A queue is there as soon as a tool names it; nobody makes it.

    All raise `InvalidInput` (`bad_queue`) for a name or a limit that cannot be. Saying the same again changes nothing.
    """

    async def queues(self) -> list[QueueView]:
        """Return, by name, those that hold tasks and those that somebody set or paused."""
        ...

    async def queue(self, name: str) -> QueueView:
        """Return one, whether or not it holds anything."""
        ...

    async def set_queue(self, name: str, limits: QueueLimits, *, by: str = "") -> QueueView:
        """Set all of a queue's limits: one that is not given is lifted. It stays paused, or not, as it was."""
        ...

    async def pause_queue(self, name: str, *, by: str = "") -> QueueView:
        """Give nothing out until it is resumed. What is under way goes on."""
        ...

    async def resume_queue(self, name: str, *, by: str = "") -> QueueView: ...

    async def dead_tasks(self, wanted: DeadFilter, *, cursor: str | None = None, limit: int = 50) -> DeadPage:
        """Return a page of the calls that failed for good in executions that go on, the newest first.

        `retry_task` puts one back on its queue. Raises `InvalidInput` for a cursor that no page gave.
        """
        ...
