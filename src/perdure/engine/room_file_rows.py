"""Write a version of a file: its row, its passages and its line in the ledger, in whatever transaction puts it."""

from __future__ import annotations

import base64

from perdure.core import codec
from perdure.core.room_files import MAX_ROOM_BYTES, NewFile, blob_of, check_file, passages_of
from perdure.core.room_search import Source
from perdure.core.rooms import Actor, RoomKind, ShareFile, Written, written_id
from perdure.engine.room_search import forget_versions, index
from perdure.engine.rooms_ledger import again, note
from perdure.errors import InvalidInput, LimitExceeded, PerdureError
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

TEXT = "text"
"""How it stands with the text of a file that has one."""


def write_file(
    tx: Tx, room: ExecutionRow, actor: Actor, file: NewFile, text_state: str, text: str
) -> Written | PerdureError:
    """Make a version of a file whose bytes are there, in a room that is locked. What may be done was judged before."""
    id = written_id("fil", room.id, actor.company, actor.kind, actor.name, file.key)
    digest = codec.digest(file.name, file.blob, file.media)
    if (known := tx.row("room_file", room=room.id, id=id)) is not None:
        return again(known, digest, f"file key {file.key!r}")
    held = tx.row("room_file_bytes", room=room.id)
    if held is not None and held["size"] + file.size > MAX_ROOM_BYTES:
        return LimitExceeded(
            f"room {room.id} holds {held['size']:,} bytes of files; with {file.name[:80]!r} it would be over the "
            f"{MAX_ROOM_BYTES:,} that a room takes. Make another room, or keep the file elsewhere.",
            code="room_full",
        )
    whose = {"room": room.id, "company": actor.company}
    last = tx.row("room_file_version", **whose, name=file.name)
    seq = note(tx, room, actor, RoomKind.FILE_PUT, id, digest, facts={"blob": file.blob, "size": file.size})
    facts = {"name": file.name, "media": file.media, "size": file.size, "blob": file.blob, "digest": digest}
    version = (last["version"] if last else 0) + 1
    facts |= {"author": actor.name, "kind": actor.kind, "version": version}
    tx.run("insert_room_file", **whose, id=id, seq=seq, **facts, text_state=text_state, now_ms=tx.now_ms)
    passages = dict(enumerate(passages_of(text)))
    scope = {**whose, "file": id}
    tx.many("insert_room_passage", [{**scope, "number": number, "text": one} for number, one in passages.items()])
    forget_versions(tx, room.id, actor.company, file.name, version)
    index(tx, Source(room.id, actor.company, "file", id, seq), passages)
    return Written(id, seq)


def share_text(tx: Tx, room: ExecutionRow, actor: Actor, act: ShareFile) -> Written | PerdureError:
    """Make a file of a text that an agent declared, bytes and all: it is never larger than one chunk."""
    content = act.text.encode()
    file = NewFile(act.name, blob_of(content), len(content), act.media, act.key)
    try:
        check_file(file)
    except InvalidInput as refusal:
        return refusal
    chunk = {"room": room.id, "company": actor.company, "blob": file.blob}
    tx.run("drop_room_blob", **chunk)  # sent by hand under this fingerprint there may be other bytes: nobody has looked
    data = base64.b64encode(content).decode()
    tx.run("insert_room_chunk", **chunk, number=0, data=data, now_ms=tx.now_ms)
    return write_file(tx, room, actor, file, TEXT, act.text)
