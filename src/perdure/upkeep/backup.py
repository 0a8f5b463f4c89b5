"""Copy a SQLite store into a file of its own, while it is in use, and prove the copy.

The copy holds one moment of the store. It carries a mark, so that nobody runs on it by mistake: what happened after
that moment is not in it. See restore.py.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path

from perdure import failpoints
from perdure.errors import InvalidInput, PerdureError, StoreFailed
from perdure.lasting import sync_names
from perdure.store import aside
from perdure.store.place import FILE_MODE
from perdure.store.sqlite_copy import copy_plain
from perdure.store.sqlite_link import SqliteLink, refusal
from perdure.system import SystemClock, SystemRandom
from perdure.upkeep.checking import Report, check_store
from perdure.upkeep.place import existing_file, is_address, refuse_damaged_log, view

PAGES = 2_048
"""Of the file, copied at a time: Ctrl-C is looked at in between."""
KEEPS_MARK = frozenset({aside.COPYING, aside.RESTORING, aside.COPIED})
"""Marks that say more of a file than that it is a backup."""
_NO_PLACE = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})
_UNREAD = frozenset({sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ})
"""Said of the file that is copied: nothing else is read."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy that was proved."""

    store: str
    file: str
    made_ms: int
    """By this machine's clock."""
    report: Report


def back_up(where: str | os.PathLike[str], target: str | os.PathLike[str]) -> Backup:
    """Copy a store into a new file, 0600, on the disk when this returns, and checked as `check_store` does.

    Reads through a connection that cannot write: a server on the store goes on meanwhile, and its log grows until the
    copy is done. Killed anywhere, it leaves at most a file `.NAME.XXXXXXXX.part` beside the target. Raises InvalidInput
    (`backup_exists`, `backup_unwritable`, `not_sqlite`, and as `view`); StoreFailed (`backup_wrong`) if what was copied
    does not hold: the store itself is then to be looked at with `check_store`.
    """
    if is_address(where):
        raise InvalidInput(
            "a PostgreSQL store is backed up with PostgreSQL's own tools, which know more ways: pg_dump, "
            "pg_basebackup, a replica. `perdure db restore --in-place` comes after restoring it.",
            code="not_sqlite",
        )
    source, place = existing_file(where), _new_file(target)
    refuse_damaged_log(source)
    made_ms = SystemClock().wall_ms()
    part = place.with_name(f".{place.name}.{SystemRandom().token(4).hex()}.part")  # in containers, all have one pid
    try:
        copy_file(source, part, mark=f"{aside.BACKUP} {made_ms}", shown=place)
        report = check_store(part)
        if not report.ok:
            first = report.problems[0]
            raise StoreFailed(
                f"store {source}: its copy does not hold ({first.table} {first.row}: {first.what}) and was not "
                "kept. `perdure db check` says whether the store itself is damaged.",
                code="backup_wrong",
            )
        failpoints.hit("backup.before_rename")
        os.rename(_refuse_existing(part, place), place)
        sync_names(place.parent)
    except OSError as error:
        raise _unwritable(place, _why(error)) from None
    finally:
        clear(part)
    report.store = f"store {place}"
    return Backup(f"store {source}", str(place), made_ms, report)


def copy_file(source: Path, target: Path, *, mark: str, shown: Path) -> None:
    """Copy one moment of a SQLite file into a new one, with a mark, as one plain file that is on the disk.

    Raises InvalidInput or, on the way, StoreFailed (`backup_unwritable`), which name `shown`: what somebody asked for,
    and `target` is to become.
    """
    try:
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
        with view(source) as found:
            if found.mark().partition(" ")[0] in KEEPS_MARK:
                mark = found.mark()
            link = found.link
            assert isinstance(link, SqliteLink)
            copy_plain(link.database, target, pages=PAGES, key=aside.KEY, mark=mark)
        _sync(target)
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if code & 0xFF in _NO_PLACE and code not in _UNREAD:
            raise _unwritable(shown, str(error), StoreFailed) from None
        raise refusal(error, source) from error
    except OSError as error:
        raise _unwritable(shown, _why(error)) from None


def _unwritable(place: Path, why: str, kind: type[PerdureError] = InvalidInput) -> PerdureError:
    return kind(
        f"file {place}: {why}. A folder that this user may write is expected, with room for a copy of the store: name "
        "another one, make room, or mend its mode.",
        code="backup_unwritable",
    )


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def clear(file: Path) -> None:
    """Remove a file that did not become a store, and what SQLite left beside it, as far as that can be done: who makes
    it anew replaces nothing."""
    for one in (file, *beside(file)):
        with contextlib.suppress(OSError):
            one.unlink()


def beside(file: Path) -> list[Path]:
    """Return the names of the files that SQLite may keep beside one."""
    return [file.with_name(file.name + end) for end in ("-wal", "-shm", "-journal")]


def _new_file(target: str | os.PathLike[str]) -> Path:
    place = Path(os.path.realpath(target))
    try:
        if place.is_dir():
            raise InvalidInput(f"file {place}: it is a folder. Name a new file in it.", code="backup_exists")
        if not place.parent.is_dir():
            raise InvalidInput(f"file {place}: its folder is not there. Make it first.", code="backup_unwritable")
        _refuse_existing(place, place)
    except OSError as error:  # not to be looked at, or no name that can be
        raise _unwritable(place, _why(error)) from None
    return place


def _refuse_existing(part: Path, place: Path) -> Path:
    if place.exists() or place.is_symlink():
        raise InvalidInput(
            f"file {place}: it is there already, and a backup never replaces anything. Name a new file.",
            code="backup_exists",
        )
    return part


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    try:
        if sys.platform == "darwin":  # there, fsync alone does not reach the disk
            import fcntl  # noqa: PLC0415 - not on Windows

            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
