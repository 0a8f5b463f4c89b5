"""What a migration does to rows that are there, where SQL cannot say it. It runs in the migration's transaction, once.

Like the migrations, what is here never changes once it was released: statements stand as they were then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from perdure.core.room_search import SearchKind, Source, entries_of
from perdure.store.protocol import EVERY_COMPANY, Row

if TYPE_CHECKING:
    from perdure.store.migrate import Session

PAGE = 500

_MESSAGES = """SELECT room, id, 0 AS part, seq, company, text, '*' AS reader FROM room_messages
WHERE (room, id) > (:room, :id) ORDER BY room, id LIMIT :page"""
_LINES = """SELECT m.room, m.id, r.company AS reader, 0 AS part, m.seq, m.company, m.text
FROM room_memory m JOIN room_readers r ON r.room = m.room AND r.line = m.id
WHERE (m.room, m.id, r.company) > (:room, :id, :reader) ORDER BY m.room, m.id, r.company LIMIT :page"""
_PASSAGES = """SELECT p.room, p.file AS id, p.number AS part, f.seq, f.company, p.text, '*' AS reader
FROM room_passages p JOIN room_files f ON f.room = p.room AND f.id = p.file
WHERE (p.room, p.file, p.number) > (:room, :id, :part) AND NOT EXISTS (
    SELECT 1 FROM room_files n
    WHERE n.room = f.room AND n.company = f.company AND n.name = f.name AND n.version > f.version
) ORDER BY p.room, p.file, p.number LIMIT :page"""
_INSERT = """INSERT INTO room_entries (number, room, company, reader, kind, id, part, seq, words)
VALUES (:number, :room, :company, :reader, :kind, :id, :part, :seq, :words)"""


def _index_rooms(session: Session) -> None:
    """Make entries of all that was said, kept and put into rooms before there was a search."""
    if session.dialect == "postgres":
        session.execute("SELECT set_config('perdure.company', :company, true)", company=EVERY_COMPANY)
    kinds: tuple[tuple[SearchKind, str], ...] = (("message", _MESSAGES), ("memory", _LINES), ("file", _PASSAGES))
    for kind, select in kinds:
        for row in _all(session, select):
            for entry in _entries(kind, row):
                session.execute(_INSERT, **entry)


def _entries(kind: SearchKind, row: Row) -> list[dict[str, str | int]]:
    source = Source(row["room"], row["company"], kind, row["id"], row["seq"])
    return entries_of(source, {row["part"]: row["text"]}, (row["reader"],))


def _all(session: Session, select: str) -> Iterator[Row]:
    after: dict[str, Any] = {"room": "", "id": "", "reader": "", "part": -1}
    while rows := session.execute(select, **after, page=PAGE):
        yield from rows
        after = {name: rows[-1][name] for name in after}


AFTER: Mapping[str, Callable[[Session], None]] = {"0018_room_search": _index_rooms}
"""By the name of the migration."""
