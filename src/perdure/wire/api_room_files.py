"""The verbs about files in rooms. A part of `wire.api.Api`."""

from __future__ import annotations

from typing import Protocol

from perdure.core.room_files import FileView, NewFile, PassageView
from perdure.core.rooms import Written


class RoomFilesApi(Protocol):
    """Files of the rooms that one company is in. All raise `NotFound` as the other verbs about rooms do.

    The bytes of a file are sent first, in chunks of `CHUNK_BYTES`, under their SHA-256; then a file is made of them.
    Both may be sent again, and count once.
    """

    async def put_room_chunk(self, room: str, blob: str, number: int, data: bytes) -> None:
        """Send a chunk.

        Raises `InvalidInput` (`bad_file`); `LimitExceeded` (`too_many_chunks`) if no file was made of too many others.
        """
        ...

    async def put_room_file(self, room: str, file: NewFile, *, by: str = "") -> Written:
        """Make a version of a file, and read its text, which may take up to 30 s.

        Raises `InvalidInput`: `bad_file`, `file_too_large`, `file_incomplete` for chunks that are not there,
        `file_differs` if they are not what their fingerprint says; `LimitExceeded` (`room_full`); `Conflict`
        (`room_key_conflict`).
        """
        ...

    async def room_files(
        self, room: str, *, after: int = 0, limit: int = 200, name: str = "", versions: bool = False
    ) -> list[FileView]:
        """Return files in order: of each the newest version, or all `versions`; or those of one `name`."""
        ...

    async def room_file(self, room: str, file: str) -> FileView: ...

    async def room_file_text(self, room: str, file: str, *, first: int = 0, limit: int = 200) -> list[PassageView]:
        """Return what a file says, from passage `first` on; nothing if it holds no text."""
        ...

    async def room_file_chunk(self, room: str, file: str, number: int) -> bytes:
        """Return a chunk of a file's bytes."""
        ...
