"""Large values: up in pieces, down in pieces or as one stream. No request holds more than two pieces in memory."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.core.blobs import MOST_BLOB_BYTES, BlobState, chunks_of, numbers_of
from perdure.errors import InvalidInput, PerdureError
from perdure.server.call import Call
from perdure.server.guard import ClientGone
from perdure.server.routes.parsed import Caller, ParsedRoute, reply
from perdure.wire import codec, routes
from perdure.wire.bodies import BlobBody, ValueList

Number = Annotated[int, Path(ge=0, lt=chunks_of(MOST_BLOB_BYTES))]
Chunk = Annotated[int | None, Query(ge=0, le=codec.MAX_INT, description="Only the piece with this number, from 0")]

router = APIRouter(route_class=ParsedRoute)


@router.post(routes.BLOB, response_model=BlobState, summary="Say that a large value is to come; learn what is missing")
async def offer_blob(call: Caller, blob: str, body: BlobBody) -> Response:
    if body.bytes < 0:
        raise InvalidInput(f"bytes is {body.bytes}; expected 0 or more.", fields=["bytes"])
    return reply(await call.api.offer_blob(blob, body.bytes))


@router.put(
    routes.BLOB_CHUNK,
    status_code=204,
    summary="Send a piece of a large value",
    openapi_extra={"requestBody": {"required": True, "content": {routes.OCTETS: {}}}},
)
async def put_chunk(call: Caller, blob: str, number: Number) -> Response:
    await call.api.put_chunk(blob, number, call.raw)
    return Response(status_code=204)


@router.get(routes.VALUES, response_model=ValueList, summary="The large values that an execution's log refers to")
async def values(call: Caller, execution: str) -> Response:
    return reply(ValueList(tuple(await call.api.values(execution))))


@router.get(
    routes.VALUE,
    summary="A large value that an execution's log refers to: all of its JSON text as a stream, or one piece",
    responses={200: {"content": {routes.OCTETS: {}}}},
)
async def value(call: Caller, execution: str, blob: str, chunk: Chunk = None) -> Response:
    if chunk is not None:
        return Response(await call.api.blob_chunk(execution, blob, chunk), media_type=routes.OCTETS)
    first = await call.api.blob_chunk(execution, blob, 0)  # a refusal keeps its status
    sizes = {one.hash: one.bytes for one in await call.api.values(execution)}
    return _Whole(call, execution, blob, sizes[blob], first)


class _Whole(Response):
    """All of a value, piece by piece, each read when the one before has been taken."""

    media_type = routes.OCTETS

    def __init__(self, call: Call, execution: str, blob: str, size: int, first: bytes) -> None:
        super().__init__(headers={"cache-control": "no-store", "content-length": str(size)})
        self._call, self._execution, self._blob = call, execution, blob
        self._size, self._first = size, first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = self._call
        with call.streams.place(call.principal.company, "large values being sent", call.limits.values):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            try:
                await call.streams.run(self._pump(send), receive)
            except (ClientGone, PerdureError):  # it sees by its length that it was cut off
                return

    async def _pump(self, send: Send) -> None:
        piece = self._first
        for number in numbers_of(self._size):
            if number:
                piece = await self._call.api.blob_chunk(self._execution, self._blob, number)
            more = number + 1 < chunks_of(self._size)
            await send({"type": "http.response.body", "body": piece, "more_body": more})
