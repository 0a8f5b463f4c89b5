"""The connection to the source of tasks: whether it is open, and what to say of requests that fail.

Reconnects for ever. Speaks once per change of state, never once per try.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.core.ports import Clock, Random
from perdure.core.work import ORPHAN_LEASE_MS, WorkerInfo
from perdure.errors import PerdureError, Unreachable
from perdure.log import get_log
from perdure.wire.api import TaskSource
from perdure.worker.pace import CEILING_SECONDS, Backoff, rest

log = get_log(__name__)


class Link:
    """The liveness connection. While it is closed nothing new starts: others may be about to take over."""

    def __init__(self, source: TaskSource, info: WorkerInfo, clock: Clock, random: Random) -> None:
        self._source, self._clock = source, clock
        self.info = info
        """What the worker says of itself."""
        self._backoff = Backoff(random)
        self._silent = False
        self._lost = False
        """It was open once and closed."""
        self._watchers: list[Callable[[], None]] = []
        self.up = asyncio.Event()
        """Set while it is open. Written by `hold` alone."""
        self.queues = ""
        """The store and the company at the other end, by their ids. Written by `hold` alone."""
        self._reopened_ms: int | None = None

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever it opens or closes, on the worker's loop."""
        self._watchers.append(changed)

    @property
    def shaken(self) -> bool:
        """Whether the server may have cut our leases short, or be about to: it is closed, or was a moment ago."""
        if not self.up.is_set():
            return True
        return self._reopened_ms is not None and self._clock.monotonic_ms() - self._reopened_ms < ORPHAN_LEASE_MS

    async def hold(self) -> None:
        """Keep it open. Never returns."""
        while True:
            since_ms = self._clock.monotonic_ms()
            reason = "the server closed it"
            try:
                async for sign in self._source.alive(self.info):
                    self.queues = sign
                    self._opened()
            except Exception as error:  # noqa: BLE001 - whatever broke it, it is to be opened again
                reason = why(error)
            self._closed(reason)
            if self._clock.monotonic_ms() - since_ms > CEILING_SECONDS * 1000:
                self._backoff.reset()
            await rest(self._clock, self._backoff.pause())

    def _opened(self) -> None:
        if self.up.is_set():
            return
        if self._lost:
            self._reopened_ms = self._clock.monotonic_ms()
        self.up.set()
        self._changed()
        self._silent = False
        log.info("worker.connected", worker=self.info.worker, worker_name=self.info.name)

    def _closed(self, reason: str) -> None:
        self._lost = self._lost or self.up.is_set()
        self.up.clear()
        self._changed()
        if not self._silent:
            self._silent = True
            facts = {"worker": self.info.worker, "reason": reason, "action": "reconnecting until the server answers"}
            log.warning("worker.disconnected", **facts)

    def _changed(self) -> None:
        for changed in self._watchers:
            changed()


class Trouble:
    """Failures of one kind of request: told when they begin and when they are over."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._in_trouble = False

    def met(self, error: Exception) -> None:
        """Take note of a failed try. What the connection already said is not said again."""
        if not self._in_trouble:
            self._in_trouble = True
            say = log.debug if isinstance(error, Unreachable) else log.warning
            say("worker.request_failed", request=self._what, reason=why(error))

    def over(self) -> None:
        """Take note of one that succeeded."""
        if self._in_trouble:
            self._in_trouble = False
            log.info("worker.request_recovered", request=self._what)


def why(error: BaseException) -> str:
    """Say in one line what went wrong."""
    return f"{error.code}: {error.message}" if isinstance(error, PerdureError) else f"{type(error).__name__}: {error}"
