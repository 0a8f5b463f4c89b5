"""The workers that are connected to a server and, where several servers share a database, those of the others too."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

import orjson

from perdure.core.ports import Clock
from perdure.core.work import WorkerInfo
from perdure.engine.presence import Presence, StillHere, present, say_present, say_still_present
from perdure.errors import Retryable
from perdure.log import get_log
from perdure.server.bridge import Bridge
from perdure.server.store_time import StoreTime
from perdure.wire import codec

log = get_log(__name__)

SAY_SECONDS = 20.0
"""How often a server says again who is connected to it."""


class Workers:
    """Who is connected. `shared`: say so in the store, and ask there."""

    def __init__(self, bridge: Bridge, clock: Clock, time: StoreTime, server: str, *, shared: bool) -> None:
        self._bridge = bridge
        self._clock = clock
        self._time = time
        self._server = server
        self._shared = shared
        self._here: dict[tuple[str, str], WorkerInfo] = {}

    @contextmanager
    def connected(self, company: str, info: WorkerInfo) -> Generator[None]:
        """Have a worker known while its liveness connection is open."""
        key = company, info.worker
        self._here[key] = info
        if self._shared:
            self._bridge.tell(say_present, self._said(company, info))
        try:
            yield
        finally:
            if self._here.get(key) is info:
                del self._here[key]
                if self._shared:
                    self._bridge.tell(say_present, Presence(company, info.worker, self._server, None))

    async def run(self) -> None:
        """Say again and again who is connected, until cancelled."""
        while self._shared:
            await self._clock.sleep(SAY_SECONDS)
            try:
                await self._say_again(dict(self._here))
            except Retryable as error:
                log.debug("workers.not_said", code=error.code, action="will say it again")

    async def _say_again(self, here: Mapping[tuple[str, str], WorkerInfo]) -> None:
        """Say it of all in one statement; in full only if somebody took us for dead meanwhile."""
        if here and await self._bridge.run(say_still_present, StillHere(self._server, tuple(here))) < len(here):
            for said in [self._bridge.run(say_present, self._said(key[0], one)) for key, one in here.items()]:
                await said

    async def of(self, company: str) -> list[WorkerInfo]:
        """Return a company's workers."""
        here = {worker: info for (owner, worker), info in self._here.items() if owner == company}
        if self._shared:
            now_ms = await self._time.now_ms()
            for text in await self._bridge.read(lambda reads: present(reads, company, now_ms)):
                info = codec.read(WorkerInfo, orjson.loads(text))
                here.setdefault(info.worker, info)
        return list(here.values())

    def _said(self, company: str, info: WorkerInfo) -> Presence:
        return Presence(company, info.worker, self._server, codec.dump(info).decode())
