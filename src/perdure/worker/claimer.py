"""Claim executions of durable functions for a worker, and hear of those that it drives: one long poll for both.

Lives on the loop of durable code, with the stable that drives what was claimed. The leases are kept elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import anyio

from perdure import failpoints
from perdure.core.functions import ClaimRequest, Claims, HeldExecution
from perdure.core.ports import Clock, Random
from perdure.core.work import FunctionLane
from perdure.flow.durable import DurableDefinition
from perdure.wire.api import FunctionSource
from perdure.worker.link import Trouble
from perdure.worker.pace import Backoff, first_of, rest
from perdure.worker.shutdown import SETTLE_SECONDS
from perdure.worker.stable import Journals, Stable

if TYPE_CHECKING:
    from perdure.worker.functions import FunctionOptions

WAIT_SECONDS = 20.0
"""Of one long poll; at most a third of a lease, so that what comes last still has the rest of it."""
MOST_AT_ONCE = 64
"""Executions that one request asks for."""


class Source(FunctionSource, Journals, Protocol):
    """Where executions come from, with their journals."""

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Wish:
    """A request that is not answered yet. Asked again it is the same, so a lost reply loses no execution."""

    request: ClaimRequest
    asked_ms: int
    """By this process's clock, before it was first sent."""


class Claimer:
    """Claims while there is room, and keeps what it claimed in its stable until `leave`. `…_soon` from any thread."""

    def __init__(
        self,
        worker: str,
        source: Source,
        definitions: Mapping[FunctionLane, DurableDefinition],
        options: FunctionOptions,
        clock: Clock,
        random: Random,
    ) -> None:
        self._worker, self._source, self._options = worker, source, options
        self._lanes = tuple(definitions)
        self._clock, self._random = clock, random
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._hurry = asyncio.Event()
        self._stopping = False
        self._poll: anyio.CancelScope | None = None
        self._listening = False
        """The request under way asks for no executions, only for news."""
        self._wish: _Wish | None = None
        self._backoff = Backoff(random)
        self._trouble = Trouble("claim")
        self.stable = Stable(worker, source, definitions, options.cache, clock, random)
        self.stable.when_freed = self._freed

    def look_soon(self) -> None:
        """Look again whether to claim."""
        self._loop.call_soon_threadsafe(self._changed.set)

    def stop_soon(self) -> None:
        """Claim no more."""
        self._loop.call_soon_threadsafe(self._stop)

    def hurry_soon(self) -> None:
        """Wait no longer for what runs."""
        self._loop.call_soon_threadsafe(self._hurry.set)

    async def claim_forever(self, connected: Callable[[], bool]) -> None:
        """Claim while there is room, and listen for news of what is owned. Returns once it is stopped."""
        while not self._stopping:
            self._changed.clear()  # before looking: what changes during the look must be looked at again
            if not connected():
                await self._changed.wait()
                continue
            with anyio.CancelScope() as self._poll:
                await self._claim()
            self._poll = None

    async def leave(self, drain_seconds: float) -> None:
        """Let runs park or end for a time, and hand back the rest."""
        await self._settle_wish()
        await first_of(self.stable.idle, lambda: self._clock.sleep(drain_seconds), self._hurry.wait)
        left = await self.stable.close()
        if left:
            await self._bounded(lambda: self._source.release(self._worker, left))
        await self._source.aclose()

    async def hang_up(self) -> None:
        """Leave at once, without a word: what is held is taken for lost. Nothing is left to do after `leave`."""
        self._stop()
        await self.stable.close()
        await self._source.aclose()

    async def _claim(self) -> None:
        free = min(self._options.slots - self.stable.busy, MOST_AT_ONCE)
        asked_ms = self._clock.monotonic_ms()
        wish = self._wish or _Wish(self._request(max(free, 0)), asked_ms)
        self._listening = not wish.request.slots
        self._wish = None if self._listening else wish
        try:
            claims = await self._ask(wish.request, min(WAIT_SECONDS, self._options.lease_ms / 3000))
        except Exception as error:  # noqa: BLE001 - whatever it was, there may be executions the next time
            self._trouble.met(error)
            await rest(self._clock, self._backoff.pause(), self._changed)
            return
        self._wish = None
        self._trouble.over()
        self._backoff.reset()
        self.stable.hint(claims.news)
        for one in claims.executions:
            self.stable.take(one, wish.asked_ms)

    async def _ask(self, request: ClaimRequest, wait_seconds: float) -> Claims:
        failpoints.hit("worker.claim_executions.send")
        claims = await self._source.claim(request, wait_seconds=wait_seconds)
        failpoints.hit("worker.claim_executions.received")
        return claims

    def _request(self, free: int) -> ClaimRequest:
        return ClaimRequest(
            worker=self._worker,
            nonce=self._random.token(16).hex(),
            lanes=self._lanes,
            slots=free,
            lease_ms=self._options.lease_ms,
            known=self.stable.known(),
            watch=self.stable.watched(),
        )

    def _freed(self) -> None:
        self._changed.set()
        if self._listening and self._poll is not None:
            self._poll.cancel()

    def _stop(self) -> None:
        self._stopping = True
        self._changed.set()
        if self._poll is not None:
            self._poll.cancel()

    async def _settle_wish(self) -> None:
        """Ask once more for the answer to a poll that stopping cut off, and return what it brought."""
        wish, self._wish = self._wish, None
        if wish is None:
            return

        async def settle() -> None:
            claims = await self._ask(replace(wish.request, slots=0), 0)
            held = [HeldExecution(one.execution, one.fence) for one in claims.executions]
            if held:
                await self._source.release(self._worker, held)

        await self._bounded(settle)

    async def _bounded(self, what: Callable[[], Awaitable[object]]) -> None:
        """Do a last courtesy: leases that nobody keeps run out."""

        async def tried() -> None:
            try:
                await what()
            except Exception as error:  # noqa: BLE001 - as above
                self._trouble.met(error)

        await first_of(tried, lambda: self._clock.sleep(SETTLE_SECONDS))
