"""What an executor knows of its leases, by its own clock; and models that are asked only under one that surely holds.

A process that was stopped past its lease wakes up in the middle of a pause between two requests; somebody else may have
the reply by then, and it would be bought twice. Or the execution was cancelled, and it has not heard of that yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from perdure.core.ports import Clock
from perdure.models.port import ModelPort, ModelRequest, Models
from perdure.models.prepared import PreparedPort


class Leases:
    """Since when each execution is surely held. Owner: the executor, on its loop."""

    def __init__(self, clock: Clock, lease_ms: int) -> None:
        self._clock = clock
        self._lease_ms = lease_ms
        self._renewed_ms = clock.monotonic_ms()
        """When the last renewal that was granted was asked for."""
        self._since_ms: dict[str, tuple[int, int]] = {}
        """The fence of each, and when its claim or what prolonged that was asked for."""
        self._news: asyncio.Event | None = None
        """Made by who waits, for all who do; set, and forgotten, once one of them holds from later on."""

    def begin(self, execution: str, fence: int, asked_ms: int) -> None:
        """An execution was claimed under a fence, by a claim that was asked for then."""
        self._since_ms[execution] = fence, asked_ms
        self._tell()

    def end(self, execution: str, fence: int) -> None:
        """What was claimed so was let go of. It may have come back by another claim."""
        if self._since_ms.get(execution, (None,))[0] == fence:
            del self._since_ms[execution]

    def renewed(self, asked_ms: int, fences: Mapping[str, int]) -> None:
        """These were prolonged under these fences, as was asked for then. A claim that is not among them was lost, or
        its grant is still on the way: it holds from when it was asked for itself."""
        self._renewed_ms = asked_ms
        for execution, fence in fences.items():
            if (known := self._since_ms.get(execution)) is not None and known[0] == fence:
                self._since_ms[execution] = fence, max(known[1], asked_ms)
        self._tell()

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    def executions(self) -> set[str]:
        """Return those that were claimed and not let go of, held or not."""
        return set(self._since_ms)

    @property
    def quiet_ms(self) -> int:
        """How long ago the last granted renewal was asked for."""
        return self._clock.monotonic_ms() - self._renewed_ms

    def fence(self, execution: str) -> int:
        """Return the fence that an execution is held under here, or was last; 0: it is not."""
        return self._since_ms.get(execution, (0, 0))[0]

    async def held(self, execution: str) -> None:
        """Return while the lease of an execution surely holds; else wait until it was prolonged, or for ever."""
        while not self.holds(execution):
            self._news = self._news or asyncio.Event()
            await self._news.wait()

    def holds(self, execution: str) -> bool:
        """Say whether the lease of an execution surely holds now."""
        known = self._since_ms.get(execution)
        return known is not None and self._clock.monotonic_ms() - known[1] < self._lease_ms


@dataclass(frozen=True, slots=True)
class HeldModels:
    """`Models` for one execution."""

    models: Models
    leases: Leases
    execution: str
    cancelled: Callable[[], Awaitable[bool]]
    """Looks whether it was cancelled. Asked only of an execution whose lease had run out: others hear of a cancel."""

    def port(self, model: str, base_url: str | None = None) -> ModelPort:
        """Return the port, which waits before each request until the execution is held, and not cancelled."""
        return PreparedPort(self.models.port(model, base_url), self._once_held)

    async def _once_held(self, request: ModelRequest) -> ModelRequest:
        while not self.leases.holds(self.execution):
            await self.leases.held(self.execution)
            if await self.cancelled():
                await asyncio.Event().wait()  # the run is about to hear of it, and gives the request up
        return request
