"""The verbs about large values over HTTP: a request for each piece, so that a lost one costs no more than itself."""

from __future__ import annotations

from perdure.client.channel import Ask, OverHttp
from perdure.core.blobs import BlobRef, BlobState
from perdure.wire import bodies, codec, routes


class HttpBlobs(OverHttp):
    """`BlobsApi` over HTTP."""

    async def offer_blob(self, content_hash: str, size: int) -> BlobState:
        body = codec.dump_given(bodies.BlobBody(size))
        # As long as a server may take to read all of it once more.
        ask = Ask("offer_blob", "POST", routes.fill(routes.BLOB, blob=content_hash), body=body, reply_seconds=120.0)
        return codec.load(BlobState, await self._channel.call(ask))

    async def put_chunk(self, content_hash: str, number: int, data: bytes) -> None:
        path = routes.fill(routes.BLOB_CHUNK, blob=content_hash, number=str(number))
        await self._channel.call(Ask("put_chunk", "PUT", path, body=data, content_type=routes.OCTETS))

    async def values(self, execution: str) -> list[BlobRef]:
        path = routes.fill(routes.VALUES, execution=execution)
        return list(codec.load(bodies.ValueList, await self._channel.call(Ask("values", "GET", path))).items)

    async def blob_chunk(self, execution: str, content_hash: str, number: int) -> bytes:
        path = routes.fill(routes.VALUE, execution=execution, blob=content_hash)
        ask = Ask("blob_chunk", "GET", path, {"chunk": number}, accept=routes.OCTETS)
        return await self._channel.call(ask)
