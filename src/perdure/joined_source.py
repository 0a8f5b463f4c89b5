"""The queues of a store that another process owns: a worker's side of `joined`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

from perdure.core.blobs import BlobRef, BlobState
from perdure.core.work import Answer, Begin, Held, LeasedTask, LeaseRequest, Report, WorkerInfo
from perdure.joined import Over, Place

T = TypeVar("T")


class JoinedSource:
    """`TaskSource` over whichever process owns the store. A worker says everything again until it is answered."""

    def __init__(self, current: Callable[[], Place]) -> None:
        self._current = current

    async def lease(self, request: LeaseRequest, *, wait_seconds: float) -> list[LeasedTask]:
        return await self._ask(lambda place: place.source.lease(request, wait_seconds=wait_seconds))

    async def begin(self, begin: Begin) -> Answer:
        return await self._ask(lambda place: place.source.begin(begin))

    async def report(self, worker: str, reports: Sequence[Report]) -> list[Answer]:
        return await self._ask(lambda place: place.source.report(worker, reports))

    async def beat(self, worker: str, held: Sequence[Held]) -> list[Answer]:
        return await self._ask(lambda place: place.source.beat(worker, held))

    async def hand_back(self, worker: str, held: Sequence[Held]) -> list[Answer]:
        return await self._ask(lambda place: place.source.hand_back(worker, held))

    async def alive(self, info: WorkerInfo) -> AsyncIterator[str]:
        async with contextlib.aclosing(cast("Any", self._current().source.alive(info))) as signs:
            async for sign in signs:
                yield sign

    async def offer_blob(self, content_hash: str, size: int) -> BlobState:
        return await self._ask(lambda place: place.api.offer_blob(content_hash, size))

    async def put_chunk(self, content_hash: str, number: int, data: bytes) -> None:
        await self._ask(lambda place: place.api.put_chunk(content_hash, number, data))

    async def values(self, execution: str) -> list[BlobRef]:
        return await self._ask(lambda place: place.api.values(execution))

    async def blob_chunk(self, execution: str, content_hash: str, number: int) -> bytes:
        return await self._ask(lambda place: place.api.blob_chunk(execution, content_hash, number))

    async def _ask(self, call: Callable[[Place], Coroutine[Any, Any, T]]) -> T:
        """Ask the owner; the next one as soon as there is one, however long the former one would be tried."""
        while True:
            place = self._current()
            try:
                return await place.unless_over(call(place))
            except Over:
                continue
