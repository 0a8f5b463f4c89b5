"""A worker's long poll for the tasks of all its tools: one request under way, and no task lost with a reply.

Knows nothing of what becomes of tasks. A request that got no answer is made again as it was, under the same nonce.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from perdure import failpoints
from perdure.core.ports import Clock, Random
from perdure.core.work import Lane, LeasedTask, LeaseRequest
from perdure.wire.api import TaskSource
from perdure.worker.link import Trouble
from perdure.worker.pace import Backoff

WAIT_SECONDS = 20.0
"""Of one long poll; shorter for leases under 30 s, so that a task that comes last still has a third of its lease."""

Taken = tuple[Sequence[LeasedTask], int]
"""Tasks, and when they were asked for by this process's clock: before they were leased."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """A request for tasks that is not answered yet."""

    request: LeaseRequest
    asked_ms: int
    """By this process's clock, before it was first sent."""


class Poll:
    """Owner: the worker's loop. `tasks` again and again; then `cut`, and once `late`."""

    def __init__(
        self, source: TaskSource, worker: str, lanes: tuple[Lane, ...], lease_ms: int, clock: Clock, random: Random
    ) -> None:
        self._source, self._worker, self._lanes, self._lease_ms = source, worker, lanes, lease_ms
        self._clock, self._random = clock, random
        self._wait_seconds = min(WAIT_SECONDS, lease_ms * 2 / 3000)
        self._wish: _Wish | None = None
        self._scope: anyio.CancelScope | None = None
        """Of the request under way."""
        self._after_failure = Backoff(random)
        self._after_nothing = Backoff(random, first=0.05, ceiling=1.0)
        self._trouble = Trouble("lease")

    async def tasks(self, free: int) -> Taken:
        """Wait for up to `free` tasks. There may be none: then it has rested already, unless it was cut off."""
        asked_ms = self._clock.monotonic_ms()
        wish = self._wish = self._wish or _Wish(self._request(free), asked_ms)
        tasks: Sequence[LeasedTask] = ()
        with anyio.CancelScope() as self._scope:
            try:
                tasks = await self._ask(wish.request, self._wait_seconds)
            except Exception as error:  # noqa: BLE001 - whatever it was, there may be tasks the next time
                self._trouble.met(error)
                await self._clock.sleep(self._after_failure.pause())
            else:
                self._wish = None
                self._trouble.over()
                self._after_failure.reset()
                if tasks:
                    self._after_nothing.reset()
                elif self._clock.monotonic_ms() - asked_ms < self._wait_seconds * 500:
                    # A source that does not wait is not hammered.
                    await self._clock.sleep(self._after_nothing.pause())
        self._scope = None
        return tasks, wish.asked_ms

    def cut(self) -> None:
        """Have `tasks` return at once."""
        if self._scope is not None:
            self._scope.cancel()

    @property
    def unanswered(self) -> bool:
        """Whether the last request may have been granted tasks that nobody here knows of."""
        return self._wish is not None

    async def late(self) -> Taken:
        """Ask once more for the answer to the last request, without waiting for tasks. None if that fails."""
        wish, self._wish = self._wish, None
        if wish is None:
            return (), 0
        try:
            return await self._ask(wish.request, 0), wish.asked_ms
        except Exception as error:  # noqa: BLE001 - a courtesy: leases that nobody keeps run out
            self._trouble.met(error)
            return (), 0

    async def _ask(self, request: LeaseRequest, wait_seconds: float) -> list[LeasedTask]:
        failpoints.hit("worker.lease.send")
        tasks = await self._source.lease(request, wait_seconds=wait_seconds)
        failpoints.hit("worker.lease.received")
        return tasks

    def _request(self, free: int) -> LeaseRequest:
        return LeaseRequest(
            worker=self._worker,
            nonce=self._random.token(16).hex(),
            lanes=self._lanes,
            slots=free,
            lease_ms=self._lease_ms,
        )
