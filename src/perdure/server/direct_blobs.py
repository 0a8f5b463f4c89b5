"""The verbs about large values in-process. No more than two pieces of one are ever in memory here."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

from perdure.core.blobs import (
    MAX_BLOB_BYTES,
    MOST_BLOB_BYTES,
    BlobRef,
    BlobState,
    chunks_of,
    is_hash,
    length_of,
    numbers_of,
)
from perdure.engine.blobs import (
    BlobName,
    OfferBlob,
    PutChunk,
    chunk_of,
    finish_blob,
    no_blob,
    offer_blob,
    put_chunk,
    refuse_blob,
    size_of_used,
    state_of,
    values_of,
)
from perdure.errors import InvalidInput, LimitExceeded
from perdure.server.bridge import Bridge
from perdure.store.protocol import Reads


class DirectBlobs:
    """`BlobsApi` of one company."""

    def __init__(self, bridge: Bridge, company: str, most_bytes: int) -> None:
        self._bridge, self._company, self._most_bytes = bridge, company, most_bytes

    async def offer_blob(self, content_hash: str, size: int) -> BlobState:
        name = self._blob(content_hash)
        if size > self._most_bytes:
            raise LimitExceeded(
                f"a value takes {size:,} bytes as JSON text; this server takes at most {self._most_bytes:,}. Write it "
                "to a file or an object store and return its address, or start the server with a larger "
                "--max-value-mb (PERDURE_MAX_VALUE_MB).",
                code="too_large",
                limit=self._most_bytes,
            )
        await self._bridge.run(offer_blob, OfferBlob(name, size))
        state, stored = await self._bridge.read(lambda reads: state_of(reads, name))
        if stored != size:
            raise InvalidInput(f"value {content_hash[:16]}… has {stored:,} bytes, not {size:,}.", code="blob_wrong")
        return state if state.whole or state.missing else await self._prove(name, size)

    async def put_chunk(self, content_hash: str, number: int, data: bytes) -> None:
        name = self._blob(content_hash)
        _, size = await self._bridge.read(lambda reads: state_of(reads, name))
        if not 0 <= number < chunks_of(size) or len(data) != length_of(size, number):
            raise InvalidInput(
                f"piece {number} of value {content_hash[:16]}… has {len(data):,} bytes; it has {chunks_of(size)} "
                f"pieces from 0 on, {size:,} bytes together, each but the last of {length_of(size, 0):,}.",
                code="blob_wrong",
            )
        await self._bridge.ask(put_chunk, PutChunk(name, number, base64.b64encode(data).decode()))

    async def blob_chunk(self, execution: str, content_hash: str, number: int) -> bytes:
        name = self._blob(content_hash)

        def look(reads: Reads) -> str:
            size_of_used(reads, name, execution)
            return chunk_of(reads, name, number)

        return base64.b64decode(await self._bridge.read(look))

    async def values(self, execution: str) -> list[BlobRef]:
        return await self._bridge.read(lambda reads: values_of(reads, self._company, execution))

    async def _prove(self, name: BlobName, size: int) -> BlobState:
        """Prove the content, then let it be referred to. What was deleted meanwhile is sent again."""
        found = hashlib.sha256()
        for number in numbers_of(size):
            text = await self._bridge.read(lambda reads, number=number: chunk_of(reads, name, number))
            found.update(base64.b64decode(text))
        if found.hexdigest() != name.hash:
            await self._bridge.run(refuse_blob, name)
            raise InvalidInput(
                f"what was sent as value {name.hash[:16]}… is something else: its hash is {found.hexdigest()[:16]}…. "
                "It was forgotten; send it anew.",
                code="blob_wrong",
            )
        if await self._bridge.run(finish_blob, OfferBlob(name, size)):
            return BlobState(whole=True)
        return (await self._bridge.read(lambda reads: state_of(reads, name)))[0]

    def _blob(self, content_hash: str) -> BlobName:
        if not is_hash(content_hash):
            raise no_blob(content_hash[:64])
        return BlobName(self._company, content_hash)


def max_value_bytes(environment: Mapping[str, str]) -> int:
    """Return the largest value that a process without a command line takes: `PERDURE_MAX_VALUE_MB`.

    Raises `InvalidInput` (`bad_limit`).
    """
    said = environment.get("PERDURE_MAX_VALUE_MB", "")
    if not said:
        return MAX_BLOB_BYTES
    if not said.isdecimal() or not 8 <= int(said) <= MOST_BLOB_BYTES // 2**20:
        raise InvalidInput(
            f"PERDURE_MAX_VALUE_MB is {said!r}; expected a number from 8 to {MOST_BLOB_BYTES // 2**20}.",
            code="bad_limit",
        )
    return int(said) * 2**20
