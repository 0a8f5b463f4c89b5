"""Large values of durable functions: put and fetched over the source, for as long as it takes."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from perdure.client.large import InMemory, load, upload
from perdure.core import codec
from perdure.core.blobs import MOST_BLOB_BYTES, BlobRef, hash_of, reference
from perdure.core.ports import Clock
from perdure.errors import Retryable
from perdure.wire.api_blobs import BlobsApi
from perdure.worker.link import Trouble

T = TypeVar("T")

PAUSE_SECONDS = 1.0
"""Between tries while the source is away: code that met an error of the network's would not run the same again."""


class LargeValues:
    """`flow.large.Large` over a source. Belongs to the loop of durable code."""

    def __init__(self, blobs: BlobsApi, clock: Clock) -> None:
        self._blobs, self._clock = blobs, clock

    @classmethod
    def over(cls, source: object, clock: Clock) -> LargeValues | None:
        """Return one over a source that takes large values, or None."""
        return cls(source, clock) if isinstance(source, BlobsApi) else None

    async def keep(self, value: Any, what: str) -> str:
        content = codec.encode(value, what, MOST_BLOB_BYTES).encode()
        ref = BlobRef(hash_of(content), len(content))
        await self._apart(lambda: upload(self._blobs, ref, InMemory(content)))
        return codec.encode_json(reference(ref.hash, ref.bytes))

    async def load(self, execution: str, ref: BlobRef) -> Any:
        return await self._apart(lambda: load(self._blobs, execution, ref))

    async def _apart(self, what: Callable[[], Awaitable[T]]) -> T:
        """Do it in a task that is no branch of the code that waits for it, nor are those that it starts."""
        loop = asyncio.get_running_loop()
        return await loop.create_task(self._until_done(what), name="perdure value", context=contextvars.Context())

    async def _until_done(self, what: Callable[[], Awaitable[T]]) -> T:
        trouble = Trouble("value")
        while True:
            try:
                done = await what()
            except Retryable as error:
                trouble.met(error)
                await self._clock.sleep(PAUSE_SECONDS)
            else:
                trouble.over()
                return done
