"""One SQLite connection: how it is opened, how named queries run on it, what its errors mean.

Knows nothing of clocks, owners or transactions' meaning: see sqlite.py.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from perdure.errors import InternalError, InvalidInput, Retryable, StoreFailed, StoreFull
from perdure.store.protocol import Again, Params, Row
from perdure.store.sql_store import Query, bad_value, missing
from perdure.store.sqlite_schema import altered
from perdure.store.sqlite_wall import Speaker, behind, raise_wall

BUSY_MS = 2_000
"""How long a statement waits for a lock that somebody else's program, or another opener, holds."""
CACHED_STATEMENTS = 512
WRITER_CACHE_KIB = 16_384
"""Pages that the writing connection keeps, so that the upper levels of every index stay in memory."""

_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DISK = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PROTOCOL})
# A full disk cannot hold the growth of the shared-memory file either; SQLite says so with another code.
_FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})
_PLAIN_CHANGES = ("INSERT", "UPDATE", "DELETE", "REPLACE")


class Statement:
    """A query made ready for SQLite: numbered parameters, and a function that puts a row's values in their order."""

    __slots__ = ("_get", "columns", "many", "name", "params", "sql")

    def __init__(self, query: Query) -> None:
        self.name = query.name
        self.params = query.params
        self.sql = behind(_numbered(query))
        # `executemany` takes neither WITH nor RETURNING
        self.many = query.sql.upper().startswith(_PLAIN_CHANGES) and "RETURNING" not in query.sql.upper()
        self.columns: tuple[str, ...] | None = None
        self._get: Callable[[Params], tuple[Any, ...]] = _getter(query.params)

    def bind(self, params: Params) -> tuple[Any, ...]:
        """Return the values in order. NUL is refused here; half surrogates and long integers when they are bound."""
        try:
            values = self._get(params)
        except KeyError:
            raise bad_value(self.name, params, self.params) from None
        for value in values:
            if value.__class__ is str and "\0" in value:
                raise bad_value(self.name, params, self.params)
        return values


@cache
def _numbered(query: Query) -> str:
    """Return a query's text for SQLite. Every store that a process opens asks for the same ones."""
    number = {name: f"?{i}" for i, name in enumerate(query.params, 1)}
    return query.render(number.__getitem__)


def _getter(names: tuple[str, ...]) -> Callable[[Params], tuple[Any, ...]]:
    match names:
        case ():
            return lambda _params: ()
        case (name,):
            return lambda params: (params[name],)
        case _:
            return cast("Callable[[Params], tuple[Any, ...]]", itemgetter(*names))


class SqliteLink:
    """An open connection and its prepared statements. Used by one thread at a time."""

    def __init__(self, place: Path, statements: Mapping[str, Statement], database: sqlite3.Connection) -> None:
        self.place = place
        self.database = database
        self.now_ms = 0
        """The store's clock in this transaction; set by whoever opens it."""
        self.spoiled = False
        """Whether a statement of this transaction failed: it must then not be committed, as PostgreSQL would not."""
        self.reads_only = False
        self._statements = statements
        self._speaker = Speaker()
        self._cursor = database.cursor()
        self._row = _rows_of(place)
        _open.add(self)

    def rows(self, query: str, **params: Any) -> list[Row]:
        return self.fetch(self._find(query), params)

    def row(self, query: str, **params: Any) -> Row | None:
        rows = self.rows(query, **params)
        return rows[0] if rows else None

    def run(self, query: str, **params: Any) -> int:
        statement = self._find(query)
        before = self.database.total_changes
        self.fetch(statement, params)
        return self.database.total_changes - before  # `rowcount` does not know what WITH .. UPDATE touched

    def many(self, query: str, params: Sequence[Params]) -> None:
        statement = self._find(query)
        if not statement.many:
            self.each(query, params)
            return
        values = list(map(statement.bind, params))
        try:
            self._cursor.executemany(statement.sql, values)
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise self._refusal(error, statement, *params) from error

    def each(self, query: str, params: Sequence[Params]) -> list[list[Row]]:
        statement = self._find(query)
        return [self.fetch(statement, one) for one in params]

    def fetch(self, statement: Statement, params: Params) -> list[Row]:
        """Run one statement to its end and return its rows."""
        cursor = self._cursor
        values = statement.bind(params)
        try:
            found = cursor.execute(statement.sql, values).fetchall()
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise self._refusal(error, statement, params) from error
        if not found:
            return []
        if statement.columns is None:
            statement.columns = tuple(column[0] for column in cursor.description)
        columns = statement.columns
        return [self._row(zip(columns, row, strict=True)) for row in found]

    def execute(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement of the store's own, with errors told like those of queries."""
        try:
            return self._cursor.execute(sql, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise (
                damaged(self.place, f"{error!s:.200}") if _is_no_text(error) else refusal(error, self.place)
            ) from error

    def raise_wall(self) -> None:
        """Let it see of rooms, from here on, what `speak_for` says. The file has had all migrations."""
        try:
            self.database.execute("PRAGMA query_only = OFF")  # views of this connection alone count as writes, too
            raise_wall(self.database, self._speaker)
            self.database.execute(f"PRAGMA query_only = {self.reads_only:d}")
        except sqlite3.Error as error:
            raise refusal(error, self.place) from error

    def speak_for(self, company: str) -> None:
        self._speaker.company = company

    def set_patience(self, wait_ms: int = BUSY_MS) -> None:
        """Wait this long for locks from now on."""
        self.execute(f"PRAGMA busy_timeout = {wait_ms}")

    def close(self) -> None:
        self.database.close()

    def abandon(self) -> None:
        """Never close it, even as the process ends: closing the last connection to a file copies and deletes its log.

        What it has locked ends with the process, as after a kill.
        """
        import ctypes  # noqa: PLC0415 - hardly ever needed

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.database))

    def _find(self, query: str) -> Statement:
        try:
            return self._statements[query]
        except KeyError:
            raise missing(self._statements, query) from None

    def _refusal(self, error: Exception, statement: Statement, *params: Params) -> Exception:
        self.spoiled = True
        if _is_no_text(error):
            return damaged(self.place, f"{error!s:.200}")
        if not isinstance(error, sqlite3.Error) or not hasattr(error, "sqlite_errorcode"):
            # not SQLite's word but Python's: a value that it would not bind
            wrong = [bad_value(statement.name, one, statement.params) for one in params]
            return next((found for found in wrong if isinstance(found, InvalidInput)), wrong[0])
        if error.sqlite_errorcode == sqlite3.SQLITE_READONLY and self.reads_only:
            return InternalError(f"query {statement.name} writes, and was run by a reader: {error}", code="bad_sql")
        found = refusal(error, self.place, statement.name)
        if isinstance(found, InternalError) and (name := altered(self.database)):
            return damaged(self.place, f"{error}: {name} is not what this release made")
        return found


def _rows_of(place: Path) -> type[dict[str, Any]]:
    """Make what rows of a file are: one that lacks a column comes of a table whose definition was damaged."""

    class StoredRow(dict[str, Any]):
        __slots__ = ()

        def __missing__(self, column: str) -> Any:
            raise damaged(place, f"no column {column} is where this release made one")

    return StoredRow


def open_link(place: Path, statements: Mapping[str, Statement], *, writes: bool) -> SqliteLink:
    """Open a connection: the one that writes and checkpoints, or one that can do neither.

    Two connections that write or checkpoint can corrupt the file before SQLite 3.51.3; `mode=ro` cannot.
    """
    mode = "rw" if writes else "ro"
    try:
        database = sqlite3.connect(
            f"file:{quote(str(place))}?mode={mode}",
            uri=True,
            timeout=BUSY_MS / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=CACHED_STATEMENTS,
        )
    except sqlite3.Error as error:
        raise refusal(error, place) from error
    link = SqliteLink(place, statements, database)
    try:
        _configure(link, writes=writes)
    except BaseException:
        link.close()
        raise
    return link


def _configure(link: SqliteLink, *, writes: bool) -> None:
    link.execute("PRAGMA temp_store = MEMORY")
    if not writes:
        link.reads_only = True
        link.execute("PRAGMA query_only = ON")
        return
    _refuse_foreign(link)
    _enter_wal(link)
    wanted = {"synchronous": 2, "cache_size": -WRITER_CACHE_KIB, "wal_autocheckpoint": 0}
    if sys.platform == "darwin":  # there, fsync alone does not reach the disk
        wanted |= {"fullfsync": 1, "checkpoint_fullfsync": 1}
    for pragma, value in wanted.items():
        link.execute(f"PRAGMA {pragma} = {value}")
        found = link.execute(f"PRAGMA {pragma}")[0][0]
        if found != value:
            raise StoreFailed(
                f"store {link.place}: this SQLite ({sqlite3.sqlite_version}) keeps {pragma} at {found} where {value} "
                "was asked for, so a commit would not be durable. Use another build of Python's sqlite3.",
                code="store_not_durable",
            )


def _refuse_foreign(link: SqliteLink) -> None:
    """Refuse a database that another program made, before anything of it changes: WAL mode is kept in the file."""
    tables = {name for (name,) in link.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and "migrations" not in tables:
        raise InvalidInput(
            f"store {link.place}: it is a database of another program (its tables: {', '.join(sorted(tables)[:5])}). A "
            "new file, or one that perdure made, is expected; name another path.",
            code="store_foreign",
        )


def _enter_wal(link: SqliteLink) -> None:
    for _ in range(20):
        try:
            if link.execute("PRAGMA journal_mode = WAL")[0][0] == "wal":
                return
        except Again:
            # Another opener is at it. This pragma does not wait for locks; a transaction does.
            link.execute("BEGIN IMMEDIATE")
            link.execute("ROLLBACK")
    raise StoreFailed(
        f"store {link.place}: its file system, or another program that has it open, does not allow SQLite's WAL mode. "
        "Close that program, or use a local disk.",
        code="store_not_durable",
    )


def _is_no_text(error: Exception) -> bool:
    """Whether it is Python's word, or came of SQLite's quoting the file, on text that is not UTF-8.

    Nobody stored any: it would not have been bound.
    """
    by_python = isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorcode")
    return by_python or isinstance(error, UnicodeDecodeError)


def refusal(error: Exception, place: Path, query: str = "") -> Exception:
    """Return what an error of SQLite means to us."""
    extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    code = extended & 0xFF
    what = f"{error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})"
    if code in _FULL or extended in _FULL:
        return StoreFull(
            f"store {place}: the disk is full. Nothing accepted was lost and reads go on; free some space, and writes "
            "go on too.",
        )
    if code in _CORRUPT:
        return damaged(place, what)
    if code in _BUSY:
        return Again(f"store {place}: {what}: another program holds a lock on it")
    if code in _DISK:
        return StoreFailed(
            f"store {place}: {what}. The disk refused a read or a write, so nothing more is accepted: see the system's "
            "log, mend the disk, and start again; what was acknowledged is kept.",
        )
    if code == sqlite3.SQLITE_INTERRUPT or extended == sqlite3.SQLITE_ABORT_ROLLBACK:
        return read_too_long()
    if code == sqlite3.SQLITE_CONSTRAINT:
        return InternalError(f"query {query}: {what}", code="constraint")
    return InternalError(f"query {query}: {what}", code="bad_sql")


def damaged(place: Path, what: str) -> StoreFailed:
    """Return the error for a file whose content is not what was written."""
    return StoreFailed(
        f"store {place}: {what}. It is not a SQLite database, or it is damaged. Restore it from a backup, save "
        f"what can be read with `sqlite3 {place} .recover`, or move it away to begin a new store.",
        code="store_corrupt",
    )


def read_too_long() -> Retryable:
    """Return the error for a read that was ended because the log could not be reset behind it."""
    what = "a read took so long that it kept the database's log from shrinking, and was ended; try again"
    return Retryable(what, code="read_too_long")


_open: weakref.WeakSet[SqliteLink] = weakref.WeakSet()


def _abandon_in_child() -> None:
    """Keep a forked child from ever closing its parent's connections, even as it ends.

    Closing one would checkpoint the log behind the owner's back: SQLite forbids using a connection across a fork.
    """
    for link in list(_open):
        link.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_in_child)
