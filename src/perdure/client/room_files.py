"""Send a file into a room, and take one out: in chunks, and proved by its fingerprint at either end."""

from __future__ import annotations

from collections.abc import AsyncIterator

from perdure.core.room_files import FileView, NewFile, blob_of, check_file, chunks_of
from perdure.core.rooms import Written
from perdure.errors import InvalidInput
from perdure.wire.api_room_files import RoomFilesApi

EVERY = 1_000


async def upload(
    api: RoomFilesApi, room: str, name: str, content: bytes, *, media: str = "", key: str = "", by: str = ""
) -> Written:
    """Send a file's bytes and make a version of them. Raises what the verbs raise."""
    file = NewFile(name, blob_of(content), len(content), media or "application/octet-stream", key)
    check_file(file)
    for number, data in enumerate(chunks_of(content)):
        await api.put_room_chunk(room, file.blob, number, data)
    return await api.put_room_file(room, file, by=by)


async def download(api: RoomFilesApi, room: str, file: str) -> bytes:
    """Return a file's bytes, by its id or, of the newest version, its name.

    Raises `NotFound`; `InvalidInput`: `file_ambiguous` for a name that several companies use, `file_differs` if what
    came is not what was put.
    """
    one = await api.room_file(room, file) if file.startswith("fil_") else await _named(api, room, file)
    content = b"".join([data async for data in _chunks(api, room, one)])
    if blob_of(content) != one.blob:
        raise InvalidInput(
            f"file {one.name[:80]!r} ({one.id}): what came is not what was put there. Ask again; if it stays so, the "
            "store is damaged.",
            code="file_differs",
        )
    return content


async def _chunks(api: RoomFilesApi, room: str, file: FileView) -> AsyncIterator[bytes]:
    for number in range(NewFile(file.name, file.blob, file.size).chunks):
        yield await api.room_file_chunk(room, file.id, number)


async def _named(api: RoomFilesApi, room: str, name: str) -> FileView:
    found = await api.room_files(room, name=name, limit=EVERY)
    if len(found) == 1:
        return found[0]
    if not found:
        return await api.room_file(room, name)  # says that it is not there
    raise InvalidInput(
        f"{name[:80]!r} is a file of {', '.join(one.company for one in found)}: name the one that is meant by its id, "
        f"{' or '.join(one.id for one in found)}.",
        code="file_ambiguous",
    )
