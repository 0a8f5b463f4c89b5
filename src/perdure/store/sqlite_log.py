"""Keeps SQLite's write-ahead log small: copies it into the database file, and resets it when readers are in the way.

Runs on the writing connection, between transactions. Its errors are ours to see: SQLite's automatic checkpoints would
swallow a failed fsync.
"""

from __future__ import annotations

import os
from contextlib import suppress

from perdure.core.ports import Clock
from perdure.errors import InternalError, StoreFull
from perdure.log import get_log
from perdure.store.pool import ReaderPool
from perdure.store.protocol import Again
from perdure.store.sqlite_link import SqliteLink
from perdure.store.sqlite_reader import SqliteReader

CHECKPOINT_CHANGES = 3_000
"""Changed rows after which the log is copied into the database file."""
CHECKPOINT_BYTES = 16 * 1024 * 1024
"""Growth of the log's file that asks for the same, however few rows it took; and what it keeps when it is reset."""
LIMIT_BYTES = 64 * 1024 * 1024
"""From here the log is reset even if old reads have to be ended for it."""
READ_MS = 10_000
"""A read older than this may be ended when it keeps the log from being reset."""
WAIT_MS = 200
"""How long a reset waits for younger reads."""

_NEXT = "UPDATE meta SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE key = 'log_mark'"
_MARKED = "(SELECT value FROM meta WHERE key = 'log_mark')"
_EVEN = f"UPDATE meta SET value = {_MARKED} WHERE key = 'log_after'"

log = get_log(__name__)


def begin_anew(link: SqliteLink) -> None:
    """Copy what a former owner's log holds, so that the next transaction begins a log with a mark of its own.

    A power cut may leave the end of a transaction without its beginning. Were the log continued there, what lies behind
    would pass for a part of it: after the next cut it would look as if something accepted was missing in between.

    An owner that was ended between the two marks (see `arm`) left a file that needs its log. Then that is set right
    first: SQLite takes the log away as soon as the last connection is closed, whoever it is that only looks in.
    """
    link.set_patience(WAIT_MS)
    with suppress(InternalError):  # there is no such table yet, or it is damaged: who reads it says so
        _mark(link, f"{_EVEN} AND value <> {_MARKED}")
    _checkpoint(link, "RESTART")
    link.set_patience()


class WriteAheadLog:
    """Owner: the writer's thread."""

    def __init__(self, link: SqliteLink, readers: ReaderPool[SqliteReader], clock: Clock) -> None:
        self._link = link
        self._readers = readers
        self._clock = clock
        self._path = f"{link.place}-wal"
        self._changes = 0
        """The connection's count of changed rows when the log was last copied."""
        self._bytes = 0
        """The log's size then."""
        self.uneven = False
        """Whether the file may say that a log is behind it before the log does. Then the connection must not be closed:
        SQLite would take the log away, and the file would seem to miss it."""
        link.execute(f"PRAGMA journal_size_limit = {CHECKPOINT_BYTES}")

    def tend(self) -> None:
        """Checkpoint if enough has changed since the last time. Raises StoreFailed if the disk refuses."""
        size = self._size()
        self._bytes = min(self._bytes, size)  # smaller: it was reset meanwhile
        changes = self._link.database.total_changes - self._changes
        if changes < CHECKPOINT_CHANGES and size - self._bytes < CHECKPOINT_BYTES:
            return
        self.arm()
        if self._size() >= LIMIT_BYTES:
            self._reset()
        self._changes = self._link.database.total_changes
        self._bytes = self._size()

    def arm(self) -> None:
        """Copy the log, so that the file itself tells from then on whether the log behind it is missing.

        `log_mark` goes into the file with all there is, and only then `log_after` into the log. A kill in between
        leaves the log as it was, with its head: that is not taken for a missing one.
        """
        if _mark(self._link, _NEXT):
            self.uneven = True
        _checkpoint(self._link, "PASSIVE")
        if self.uneven and _mark(self._link, _EVEN):
            self.uneven = False

    def even_out(self) -> None:
        """Make the marks equal, as part of the last transaction: what is left then needs no log behind it."""
        self._link.execute(_EVEN)

    def empty(self) -> None:
        """Copy the whole log into the database file and shrink it to nothing, if no reader is in the way."""
        self._link.set_patience(WAIT_MS)
        _checkpoint(self._link, "TRUNCATE")
        self._link.set_patience()

    def _reset(self) -> None:
        """Empty the log's file, and end the reads that have kept it from being emptied for too long."""
        now_ms = self._clock.monotonic_ms()
        for reader in list(self._readers.out):
            if now_ms - reader.since_ms >= READ_MS:
                log.warning("store.read_ended", store=str(self._link.place), age_ms=now_ms - reader.since_ms)
                reader.expire()
        self.empty()
        if (size := self._size()) >= LIMIT_BYTES:
            log.warning("store.log_large", store=str(self._link.place), bytes=size)

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return 0


def _mark(link: SqliteLink, statement: str) -> bool:
    """Say whether the mark could be made: on a full or locked disk the next time will do."""
    try:
        link.execute(statement)
    except (StoreFull, Again):
        return False
    return True


def _checkpoint(link: SqliteLink, mode: str) -> None:
    try:
        link.execute(f"PRAGMA wal_checkpoint({mode})")
    except (StoreFull, Again):
        pass  # everything is in the log; the next time will do
