"""The control API of files in rooms. Whose they are comes from the key alone; no GET changes anything."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from perdure.core.room_files import FileView
from perdure.core.rooms import Written
from perdure.server.routes.parsed import After, Caller, Limit, ParsedRoute, reply
from perdure.wire import codec, routes
from perdure.wire.bodies_room_files import ChunkBody, ChunkReply, FileBody, FileList, PassageList, to_bytes, to_text

router = APIRouter(route_class=ParsedRoute)

Name = Annotated[str, Query(description="Only files of this name")]
First = Annotated[int, Query(ge=0, le=codec.MAX_INT, description="Number of a passage")]
Versions = Annotated[bool, Query(description="All versions, and not the newest of each alone")]


@router.post(routes.ROOM_CHUNKS, status_code=204, summary="Send a piece of a file's bytes")
async def put_room_chunk(call: Caller, room: str, body: ChunkBody) -> Response:
    await call.api.put_room_chunk(room, body.blob, body.number, to_bytes(body.data))
    return Response(status_code=204)


@router.post(routes.ROOM_FILES, status_code=201, response_model=Written, summary="Make a file of what was sent")
async def put_room_file(call: Caller, room: str, body: FileBody) -> Response:
    done = await call.api.put_room_file(room, body.file, by=call.identity(body.by))
    return reply(done, 201 if done.created else 200)


@router.get(routes.ROOM_FILES, response_model=FileList, summary="Files of a room, the oldest first")
async def room_files(
    call: Caller, room: str, after: After = 0, limit: Limit = 200, name: Name = "", versions: Versions = False
) -> Response:
    found = await call.api.room_files(room, after=after, limit=limit, name=name, versions=versions)
    return reply(FileList(tuple(found)))


@router.get(routes.ROOM_FILE, response_model=FileView, summary="One version of a file")
async def room_file(call: Caller, room: str, file: str) -> Response:
    return reply(await call.api.room_file(room, file))


@router.get(routes.ROOM_FILE_TEXT, response_model=PassageList, summary="What a file says, from a passage on")
async def room_file_text(call: Caller, room: str, file: str, first: First = 0, limit: Limit = 200) -> Response:
    return reply(PassageList(tuple(await call.api.room_file_text(room, file, first=first, limit=limit))))


@router.get(routes.ROOM_FILE_CHUNK, response_model=ChunkReply, summary="A piece of a file's bytes")
async def room_file_chunk(call: Caller, room: str, file: str, number: int) -> Response:
    return reply(ChunkReply(to_text(await call.api.room_file_chunk(room, file, number))))
