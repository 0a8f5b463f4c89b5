"""The verbs about large values. A part of `wire.api.Api`, and of what workers speak to."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from perdure.core.blobs import BlobRef, BlobState


@runtime_checkable
class BlobsApi(Protocol):
    """The large values of one company, in pieces of `CHUNK_BYTES`: nobody holds a whole one but who looks at it.

    Saying anything again is safe.
    """

    async def offer_blob(self, content_hash: str, size: int) -> BlobState:
        """Say that content of a size is to be referred to; return which of its pieces are to be sent.

        With none missing it is whole, proven by its hash, and kept for a day even if nothing refers to it. Raises
        `LimitExceeded` (`too_large`); `InvalidInput` (`blob_wrong`) if what was sent is not what its hash says: it is
        forgotten, and may be sent anew.
        """
        ...

    async def put_chunk(self, content_hash: str, number: int, data: bytes) -> None:
        """Send a piece, the first with number 0. Raises `NotFound` (`no_blob`) for what was not offered."""
        ...

    async def values(self, execution: str) -> list[BlobRef]:
        """Return the large values that the log of an execution refers to. Raises `NotFound`."""
        ...

    async def blob_chunk(self, execution: str, content_hash: str, number: int) -> bytes:
        """Return a piece of what the log of an execution refers to. Raises `NotFound` (`no_blob`)."""
        ...
