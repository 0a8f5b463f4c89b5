"""What a former owner left of a SQLite file and its log: whether the two belong together, and the log is whole.

SQLite takes a log that is gone, zeroed or damaged for a shorter one, and goes on with an older state without a word.
Two numbers in `meta` tell: the file itself holds `log_mark`, and the log behind it `log_after`, equal to it. A log that
was cut off at its end, by whoever has access to it, cannot be told from one that never was longer.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from perdure.errors import StoreFailed

HEADER = struct.Struct(">8I")
FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682
"""The last bit says which way round the words of a checksum are."""
_TAKEN = struct.Struct("=I")
_TAKEN_AT = 16
"""Where the shared memory has the number of the last frame that SQLite took."""
Meta = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a log. What lies behind the last one is left from the log before."""

    commits: tuple[int, ...]
    """The numbers of those that end a transaction, from 1."""
    last: int


def refuse_damage(place: Path) -> None:
    """Raise StoreFailed (`store_corrupt`) if some of what was accepted is missing. Changes nothing that lasts.

    What a crash or a power cut leaves is never refused: at most one transaction of it is there in part, the last, which
    nobody was told of. Whoever calls owns the store, and has no connection to it open.
    """
    log = place.with_name(place.name + "-wal")
    try:
        frames = _frames_of(log)
        if not place.stat().st_size:
            if frames:
                raise _damaged(place, "the file is empty or was gone, and its log beside it is not")
            return
        file = _meta_at(place, "mode=ro&immutable=1")
        if frames is None:
            if _number(file, "log_after") < _number(file, "log_mark"):
                raise _damaged(place, "its log (-wal) is gone or is none any more, and not all of it was in the file")
            return
        now, taken = _with_log(place)
    except (OSError, sqlite3.Error, UnicodeDecodeError):
        return  # whoever opens it finds the same, and says what it is
    later = [number for number in frames.commits if number > taken]
    if later and later[0] < frames.last:
        raise _damaged(place, f"its log (-wal) is damaged behind frame {taken} of {frames.last}")
    if file and (file.get("store_id") != now.get("store_id") or _epoch(now) < _epoch(file)):
        raise _damaged(place, "its log (-wal) belongs to another store, or is an older one")


def _frames_of(log: Path) -> Frames | None:
    """Return what a log's heads of frames say; None if there is none, or none that begins as one does."""
    try:
        descriptor = os.open(log, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return None
    try:
        head = os.pread(descriptor, HEADER.size, 0)
        if len(head) < HEADER.size or not _is_header(words := HEADER.unpack(head)):
            return None
        page, salts, commits, last = words[2], words[4:6], list[int](), 0
        for number in range(1, (os.fstat(descriptor).st_size - HEADER.size) // (FRAME.size + page) + 1):
            at = HEADER.size + (number - 1) * (FRAME.size + page)
            frame = FRAME.unpack(os.pread(descriptor, FRAME.size, at))
            if frame[2:4] == salts:
                last = number
                commits += [number] if frame[1] else []
        return Frames(tuple(commits), last)
    finally:
        os.close(descriptor)


def _with_log(place: Path) -> tuple[Meta, int]:
    """Return `meta` as SQLite reads it with the log, and how many of the log's frames it takes."""
    with closing(sqlite3.connect(_address(place, "mode=ro"), uri=True, isolation_level=None)) as database:
        database.execute("BEGIN")
        found = _meta(database)
        with open(f"{place}-shm", "rb") as shared:
            (taken,) = _TAKEN.unpack(shared.read(_TAKEN_AT + _TAKEN.size)[_TAKEN_AT:])
        return found, taken


def _meta_at(place: Path, how: str) -> Meta:
    """Return `meta` without what the log says. A page torn by a power cut, which the log mends, reads as nothing."""
    try:
        with closing(sqlite3.connect(_address(place, how), uri=True)) as database:
            return _meta(database)
    except (sqlite3.Error, UnicodeDecodeError):
        return {}


def _address(place: Path, how: str) -> str:
    return f"file:{quote(str(place))}?{how}"


def _meta(database: sqlite3.Connection) -> Meta:
    return {str(key): str(value) for key, value in database.execute("SELECT key, value FROM meta")}


def _epoch(meta: Meta) -> int:
    return _number(meta, "owner_epoch")


def _number(meta: Meta, key: str) -> int:
    value = meta.get(key, "")
    return int(value) if value.isdecimal() else 0


def _is_header(words: tuple[int, ...]) -> bool:
    """Whether a log's first words are sound: they lie in one sector, so no power cut tears them."""
    if words[0] & ~1 != _MAGIC or words[2] < 512 or words[2] & (words[2] - 1):
        return False
    order = ">" if words[0] & 1 else "<"
    read = struct.unpack(f"{order}6I", struct.pack(">6I", *words[:6]))
    one = two = 0
    for at in range(0, 6, 2):
        one = (one + read[at] + two) & 0xFFFFFFFF
        two = (two + read[at + 1] + one) & 0xFFFFFFFF
    return (one, two) == words[6:8]


def _damaged(place: Path, what: str) -> StoreFailed:
    return StoreFailed(
        f"store {place}: {what}, so something that was accepted would be missing. Nothing was changed. Put back the "
        f"file and {place.name}-wal, both from the same moment, or restore a backup. To go on with what is left, save "
        f"it into a new file with `sqlite3 {place} .recover`.",
        code="store_corrupt",
    )
