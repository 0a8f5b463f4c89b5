"""The verbs about files in rooms over HTTP."""

from __future__ import annotations

from perdure.client.channel import Ask, OverHttp
from perdure.core.room_files import FileView, NewFile, PassageView
from perdure.core.rooms import Written
from perdure.wire import bodies_room_files as shapes
from perdure.wire import codec, routes


class HttpRoomFiles(OverHttp):
    """`RoomFilesApi` over HTTP. A file that is made without a key gets one, so that sending it again does it once."""

    async def put_room_chunk(self, room: str, blob: str, number: int, data: bytes) -> None:
        body = codec.dump(shapes.ChunkBody(blob, number, shapes.to_text(data)))
        await self._channel.call(Ask("put_room_chunk", "POST", routes.fill(routes.ROOM_CHUNKS, room=room), body=body))

    async def put_room_file(self, room: str, file: NewFile, *, by: str = "") -> Written:
        key = file.key or f"auto-{self._channel.random.token(16).hex()}"
        body = codec.dump_given(shapes.FileBody(file.name, file.blob, file.size, file.media, key, by))
        ask = Ask("put_room_file", "POST", routes.fill(routes.ROOM_FILES, room=room), body=body)
        return codec.load(Written, await self._channel.call(ask))

    async def room_files(
        self, room: str, *, after: int = 0, limit: int = 200, name: str = "", versions: bool = False
    ) -> list[FileView]:
        query: dict[str, str | int] = {"after": after, "limit": limit}
        query |= {**({"name": name} if name else {}), **({"versions": "true"} if versions else {})}
        ask = Ask("room_files", "GET", routes.fill(routes.ROOM_FILES, room=room), query)
        return list(codec.load(shapes.FileList, await self._channel.call(ask)).items)

    async def room_file(self, room: str, file: str) -> FileView:
        ask = Ask("room_file", "GET", routes.fill(routes.ROOM_FILE, room=room, file=file))
        return codec.load(FileView, await self._channel.call(ask))

    async def room_file_text(self, room: str, file: str, *, first: int = 0, limit: int = 200) -> list[PassageView]:
        query: dict[str, str | int] = {"first": first, "limit": limit}
        ask = Ask("room_file_text", "GET", routes.fill(routes.ROOM_FILE_TEXT, room=room, file=file), query)
        return list(codec.load(shapes.PassageList, await self._channel.call(ask)).items)

    async def room_file_chunk(self, room: str, file: str, number: int) -> bytes:
        path = routes.fill(routes.ROOM_FILE_CHUNK, room=room, file=file, number=str(number))
        reply = codec.load(shapes.ChunkReply, await self._channel.call(Ask("room_file_chunk", "GET", path)))
        return shapes.to_bytes(reply.data)
