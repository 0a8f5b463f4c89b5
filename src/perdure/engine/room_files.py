"""Keep files in rooms and read them. A version, its passages and its line in the ledger are one transaction.

Where the bytes are is known to this file alone: chunks of a table, by room, company and fingerprint.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core import states
from perdure.core.room_files import FileView, NewFile, PassageView
from perdure.core.rooms import Actor, Written
from perdure.engine.room_file_rows import write_file
from perdure.engine.rooms import room_ref
from perdure.engine.rooms_members import missing_room, seated, standing
from perdure.engine.rooms_read import Window, check_joined
from perdure.engine.rooms_rights import allowed, deed_of_file
from perdure.errors import InvalidInput, LimitExceeded, NotFound, PerdureError
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Reads, Row
from perdure.store.tx import Tx

UNUSED_MS = 24 * 3600 * 1000
"""After this, chunks that no file was made of are forgotten when their company sends others."""
MOST_UNUSED = 400
"""Chunks of a company in a room that no file was made of: as many as all files of a room have."""


@dataclass(frozen=True, slots=True)
class PutChunk:
    """A piece of bytes that a file is to be made of."""

    room: str
    company: str
    blob: str
    number: int
    data: str
    """Base64."""

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class PutFile:
    """A file whose bytes are there, and what was read in it."""

    room: str
    actor: Actor
    file: NewFile
    text_state: str
    text: str
    sent_ms: int | None = None
    """Of the bytes that were looked at, as `Sent` has it. None: they are taken as they are."""

    @property
    def size(self) -> int:
        return len(self.text)


@dataclass(frozen=True, slots=True)
class Sent:
    """The bytes that a company has sent for a file."""

    content: bytes
    sent_ms: int
    """When their chunks were sent, all times together: one that was forgotten and sent anew makes another sum."""


@operation()
def put_chunk(tx: Tx, rows: Sequence[PutChunk]) -> Steps[bool | NotFound | LimitExceeded]:
    """Keep pieces of bytes for members. The same again changes nothing."""
    yield ()
    return [_put_chunk(tx, row) for row in rows]


def _put_chunk(tx: Tx, row: PutChunk) -> bool | NotFound | LimitExceeded:
    tx.speak_for(row.company)
    if standing(tx, row.room, row.company) != states.Membership.JOINED:
        return missing_room(row.room)
    whose, long_ago = {"room": row.room, "company": row.company}, tx.now_ms - UNUSED_MS
    there = {one["number"] for one in tx.rows("room_chunk_numbers", **whose, blob=row.blob)}
    if row.number in there:
        return False
    if not there:
        tx.run("drop_room_chunks", **whose, before=long_ago)
    unused = tx.row("count_unused_chunks", **whose, since=long_ago)
    if unused is not None and unused["n"] >= MOST_UNUSED:
        return LimitExceeded(
            f"{row.company} has sent {MOST_UNUSED} chunks into room {row.room} that it has made no file of, the most "
            "that are kept. Make the files, or wait: after a day they are forgotten.",
            code="too_many_chunks",
            limit=MOST_UNUSED,
        )
    return bool(tx.run("insert_room_chunk", **whose, blob=row.blob, number=row.number, data=row.data, now_ms=tx.now_ms))


@operation()
def put_file(tx: Tx, rows: Sequence[PutFile]) -> Steps[Written | PerdureError]:
    """Make versions of files. To whoever is no member, the room is not there."""
    yield [room_ref(room) for room in seated(tx, ((row.room, row.actor.company) for row in rows))]
    return [_put_file(tx, row) for row in rows]


def _put_file(tx: Tx, row: PutFile) -> Written | PerdureError:
    tx.speak_for(row.actor.company)
    ledger = tx.execution(row.room)
    # In this order also for a room that is not there: else the work would tell which rooms are.
    if standing(tx, row.room, row.actor.company) != states.Membership.JOINED or ledger is None:
        return missing_room(row.room)
    may = allowed(tx, ledger, row.actor, (deed_of_file(row.actor),))
    if isinstance(may, PerdureError):
        return may
    if row.sent_ms is not None and not _still_there(tx, row):
        return InvalidInput(
            f"file {row.file.name[:80]!r}: chunks of it were forgotten meanwhile, a day after they had been sent. Send "
            "all again, then make the file of them.",
            code="file_incomplete",
        )
    return write_file(tx, ledger, row.actor, row.file, row.text_state, row.text)


def _still_there(tx: Tx, row: PutFile) -> bool:
    """Say whether the chunks are those that were looked at: outside of this transaction, and that took its time."""
    blob = {"room": row.room, "company": row.actor.company, "blob": row.file.blob}
    found = tx.row("room_chunks_sent", **blob, chunks=row.file.chunks)
    return found is not None and (found["n"], found["sent_ms"]) == (row.file.chunks, row.sent_ms)


# -- what is read ------------------------------------------------------------------------------------------------------


def files_view(
    reads: Reads, company: str, room: str, window: Window, name: str = "", *, versions: bool = False
) -> list[FileView]:
    """Return files, the oldest first: of each the newest version, or all `versions`. Raises `NotFound`."""
    check_joined(reads, company, room)
    wanted = {"after": window.after, "limit": window.limit, "name": name, "newest": int(not versions)}
    return [_view(row) for row in reads.rows("room_files_after", room=room, **wanted)]


def file_view(reads: Reads, company: str, room: str, file: str) -> FileView:
    """Return one version. Raises `NotFound`."""
    check_joined(reads, company, room)
    row = reads.row("room_file", room=room, id=file)
    if row is None:
        raise NotFound(
            f"there is no file {file[:80]} in room {room}. `perdure rooms files` lists them.", file=file[:80]
        )
    return _view(row)


def _view(row: Row) -> FileView:
    names = ("id", "seq", "company", "author", "name", "version", "media", "size", "blob", "text_state", "at_ms")
    return FileView(**{name: row[name] for name in names})


def passages_view(reads: Reads, company: str, room: str, file: str, first: int, limit: int) -> list[PassageView]:
    """Return what a file says, from a passage on. Raises `NotFound`."""
    file_view(reads, company, room, file)
    rows = reads.rows("room_passages_of", room=room, file=file, first=first, limit=limit)
    return [PassageView(**row) for row in rows]


def file_chunk(reads: Reads, company: str, room: str, file: str, number: int) -> bytes:
    """Return a piece of a file's bytes. Raises `NotFound`."""
    one = file_view(reads, company, room, file)
    row = _chunk(reads, room, one.company, one.blob, number)
    if row is None:
        raise NotFound(f"file {file[:80]} has no chunk {number}.", file=file[:80], number=number)
    return _data_of(row)


def sent_bytes(reads: Reads, company: str, room: str, file: NewFile) -> Sent:
    """Return the bytes that a company has sent for a file. Raises `NotFound`, `InvalidInput` (`file_incomplete`)."""
    check_joined(reads, company, room)
    rows: list[Row] = []
    for number in range(file.chunks):
        row = _chunk(reads, room, company, file.blob, number)
        if row is None:
            raise InvalidInput(
                f"file {file.name[:80]!r}: chunk {number} of {file.chunks} has not been sent. Send all, then make the "
                "file of them.",
                code="file_incomplete",
                number=number,
            )
        rows.append(row)
    return Sent(b"".join(map(_data_of, rows)), sum(row["at_ms"] for row in rows))


def _chunk(reads: Reads, room: str, company: str, blob: str, number: int) -> Row | None:
    return reads.row("room_chunk", room=room, company=company, blob=blob, number=number)


def _data_of(row: Row) -> bytes:
    try:
        return base64.b64decode(row["data"], validate=True)
    except (binascii.Error, ValueError):
        return b""  # the fingerprint of the whole tells
