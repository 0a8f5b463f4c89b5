"""The verbs about files in rooms in-process: straight to the engine through the bridge."""

from __future__ import annotations

import base64
from dataclasses import replace
from functools import partial

from perdure.core.room_files import FileView, NewFile, PassageView, blob_of, check_blob, check_chunk, check_file
from perdure.core.rooms import Written
from perdure.engine.room_files import (
    PutChunk,
    PutFile,
    file_chunk,
    file_view,
    files_view,
    passages_view,
    put_chunk,
    put_file,
    sent_bytes,
)
from perdure.errors import InvalidInput
from perdure.server.direct_rooms import DirectRooms, window_of
from perdure.server.extracting import text_of


class DirectRoomFiles(DirectRooms):
    """`RoomFilesApi` of one company, beside its `RoomsApi`."""

    async def put_room_chunk(self, room: str, blob: str, number: int, data: bytes) -> None:
        check_blob(blob)
        check_chunk(number, data)
        text = base64.b64encode(data).decode()
        await self._bridge.ask(put_chunk, PutChunk(room, self._company, blob, number, text))

    async def put_room_file(self, room: str, file: NewFile, *, by: str = "") -> Written:
        check_file(file)
        sent = await self._read(partial(sent_bytes, company=self._company, room=room, file=file))
        content = sent.content
        if len(content) != file.size or blob_of(content) != file.blob:
            raise InvalidInput(
                f"file {file.name[:80]!r}: what was sent has {len(content):,} bytes and SHA-256 {blob_of(content)}; "
                f"{file.size:,} and {file.blob} were named. Send its chunks under the fingerprint of its bytes.",
                code="file_differs",
            )
        found = await text_of(content, self._clock)
        named = file if file.key else replace(file, key=self._chance())
        row = PutFile(room, self._actor(by), named, found.state, found.text, sent.sent_ms)
        return await self._bridge.ask(put_file, row)

    async def room_files(
        self, room: str, *, after: int = 0, limit: int = 200, name: str = "", versions: bool = False
    ) -> list[FileView]:
        window = window_of(after, limit)
        look = partial(files_view, company=self._company, room=room, window=window, name=name, versions=versions)
        return await self._read(look)

    async def room_file(self, room: str, file: str) -> FileView:
        return await self._read(partial(file_view, company=self._company, room=room, file=file))

    async def room_file_text(self, room: str, file: str, *, first: int = 0, limit: int = 200) -> list[PassageView]:
        window = window_of(first, limit)
        look = partial(passages_view, company=self._company, room=room, file=file, first=window.after, limit=limit)
        return await self._read(look)

    async def room_file_chunk(self, room: str, file: str, number: int) -> bytes:
        return await self._read(partial(file_chunk, company=self._company, room=room, file=file, number=number))
