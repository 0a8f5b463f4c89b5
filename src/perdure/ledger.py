"""Do something in your own database once: the change and a record of it commit in one transaction, or neither does.

For `delivery="transactional"`, and of use anywhere. Takes the caller's own connection and imports no driver.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from perdure.core import codec
from perdure.core.witness import NO_LEDGER_RECORD, check_key, saw_record
from perdure.errors import Conflict, InvalidInput, PermanentError
from perdure.log import get_log

log = get_log(__name__)

_LOCK = 7_300_451_167_214_115
"""Of the advisory lock under which PostgreSQL makes the table: two at once would meet in its catalogue."""


class Effect:
    """What stands under one key: nothing yet, or what an earlier attempt recorded."""

    def __init__(self, link: _Link, key: str, recorded: str | None) -> None:
        self._link, self._key, self._recorded = link, key, recorded
        self.done = recorded is not None
        """Whether an earlier attempt did it. Then do nothing, and use `value`."""
        self.kept = False
        """Whether `record` was called in this block."""

    @property
    def value(self) -> Any:
        """What was recorded. Raises `Conflict` (`not_recorded`) if nothing was."""
        if self._recorded is None:
            raise Conflict(
                f"nothing is recorded under {self._key!r} yet: look at `effect.done` first, act, then "
                "`effect.record(value)`.",
                code="not_recorded",
            )
        return codec.decode(self._recorded)

    def record(self, value: Any = None) -> Any:
        """Keep what came of it; returns it as later attempts will read it. Counts when the block ends.

        JSON types, dataclasses and pydantic models. Raises `Conflict` (`already_recorded`), `InvalidInput`
        (`unserialisable`) and `LimitExceeded` (`too_large`).
        """
        if self._recorded is not None:
            raise Conflict(
                f"{self._key!r} is recorded already: act and record only where `effect.done` is false.",
                code="already_recorded",
            )
        text, plain = codec.round_trip(value, "what is recorded in the ledger")
        self._link.run("UPDATE perdure_ledger SET value = ? WHERE key = ?", (text, self._key))
        self._recorded, self.kept = text, True
        return plain


@contextmanager
def once(connection: Any, key: str) -> Generator[Effect]:
    """Do what the block does at most once for `key`, together with a record of it, in one transaction.

        with once(connection, ctx.idempotency_key) as effect:
            if effect.done:
                return effect.value
            connection.execute("INSERT INTO transfers ...")
            return effect.record(receipt)

    `connection` is a `sqlite3.Connection`, a `psycopg.Connection`, or a `Connection` or `Session` of SQLAlchemy over
    one of those. A transaction begins with the block and is committed when it ends: then the effect and its record are
    durable. It is rolled back when the block raises, when the process dies, and when it was done before: nothing is
    left then. Of two blocks with the same key at the same time the second waits for the first, and finds its value; on
    SQLite no longer than the connection's `timeout`.

    Covers this database alone: a request to somebody else inside the block is not part of the transaction. Make it for
    one thread at a time, as the connection itself.

    Raises `InvalidInput` (`bad_connection`, `bad_key`), `Conflict` (`in_transaction`) if the connection holds changes
    that are not committed, `PermanentError` (`no_ledger_record`) if the block ends without `effect.record`, and
    whatever the driver raises.
    """
    if not key:
        raise InvalidInput(
            "once() needs a key, found ''. In a tool it is `ctx.idempotency_key`; in a unit test, make a "
            "`ToolContext(idempotency_key=...)`.",
            code="bad_key",
        )
    check_key(key)
    link = _link_to(connection)
    link.begin()
    try:
        effect = _claim(link, key)
        yield effect
        _end(link, effect, key)
    except BaseException:
        _undo(link)
        raise
    saw_record()


def create_table(connection: Any) -> None:
    """Make the table `perdure_ledger` if it is not there, and commit. `once` does so too, if it may.

    Raises as `once`.
    """
    link = _link_to(connection)
    link.begin()
    try:
        link.create()
        link.commit()
    except BaseException:
        _undo(link)
        raise


def _claim(link: _Link, key: str) -> Effect:
    """Take the key, or find what stands under it. Waits for whoever holds it."""
    if not link.has_table():
        link.create()
    claim = "INSERT INTO perdure_ledger (key) VALUES (?) ON CONFLICT (key) DO NOTHING RETURNING key"
    if link.run(claim, (key,)):
        return Effect(link, key, None)
    found = link.run("SELECT value FROM perdure_ledger WHERE key = ?", (key,))
    if not found or found[0][0] is None:
        raise Conflict(
            f"the record under {key!r} cannot be read: another transaction changed it at the same time. Try again.",
            code="ledger_conflict",
        )
    return Effect(link, key, found[0][0])


def _end(link: _Link, effect: Effect, key: str) -> None:
    if effect.kept:
        link.commit()
    elif effect.done:
        link.rollback()  # whatever was changed all the same would be a second time
    else:
        raise PermanentError(
            f"the block of once() for {key!r} ended without `effect.record(value)`, so it is rolled back.",
            code=NO_LEDGER_RECORD,
        )


def _undo(link: _Link) -> None:
    try:
        link.rollback()
    except Exception as error:  # noqa: BLE001 - the first error is the one to see; this ends with the connection
        log.debug("ledger.not_rolled_back", error=type(error).__name__)


class _Link(Protocol):
    """One connection, whoever made it."""

    def begin(self) -> None:
        """Begin a transaction. Raises `Conflict` (`in_transaction`)."""
        ...

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement, with `?` for values, and return its rows."""
        ...

    def has_table(self) -> bool: ...

    def create(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Sqlite:
    connection: sqlite3.Connection

    def begin(self) -> None:
        if getattr(self.connection, "autocommit", None) is False:
            return  # Python 3.12: it is in a transaction at all times
        if self.connection.in_transaction:
            raise _in_transaction()
        self.connection.execute("BEGIN IMMEDIATE")

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        cursor = self.connection.cursor()
        cursor.row_factory = None
        return cursor.execute(sql, values).fetchall()

    def has_table(self) -> bool:
        return bool(self.run("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'perdure_ledger'"))

    def create(self) -> None:
        self.run(
            "CREATE TABLE IF NOT EXISTS perdure_ledger "
            "(key TEXT PRIMARY KEY, value TEXT, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)"
        )

    def commit(self) -> None:
        if getattr(self.connection, "autocommit", None) is True:  # there `commit()` does nothing
            self.run("COMMIT")
        else:
            self.connection.commit()

    def rollback(self) -> None:
        if self.connection.in_transaction:
            if getattr(self.connection, "autocommit", None) is True:
                self.run("ROLLBACK")
            else:
                self.connection.rollback()


@dataclass(frozen=True, slots=True)
class _Psycopg:
    connection: Any
    psycopg: Any

    def begin(self) -> None:
        status = self.connection.info.transaction_status.name
        if status not in ("IDLE", "INTRANS"):
            raise _in_transaction()
        if status == "INTRANS":  # reading began one: that is no harm
            if self.run("SELECT txid_current_if_assigned()")[0][0] is not None:
                raise _in_transaction()
        elif self.connection.autocommit:
            self.run("BEGIN")

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.connection.cursor(row_factory=self.psycopg.rows.tuple_row) as cursor:
            cursor.execute(sql.replace("?", "%s"), values)
            return [] if cursor.description is None else cursor.fetchall()

    def has_table(self) -> bool:
        return self.run("SELECT to_regclass('perdure_ledger')")[0][0] is not None

    def create(self) -> None:
        self.run("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
        self.run(
            "CREATE TABLE IF NOT EXISTS perdure_ledger "
            "(key TEXT PRIMARY KEY, value TEXT, at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP)"
        )

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()


@dataclass(frozen=True, slots=True)
class _SqlAlchemy:
    """A transaction of SQLAlchemy's around the driver's own, so that what its users add to it is in it too."""

    owner: Any
    """A `Connection` or `Session`."""
    driver: _Link

    def begin(self) -> None:
        self.driver.begin()

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.driver.run(sql, values)

    def has_table(self) -> bool:
        return self.driver.has_table()

    def create(self) -> None:
        self.driver.create()

    def commit(self) -> None:
        self.owner.commit()

    def rollback(self) -> None:
        self.owner.rollback()  # and the driver's with it, which may be back in its pool now


def _link_to(connection: Any) -> _Link:
    """Find out whose connection it is. A library that is not loaded made none."""
    if isinstance(connection, sqlite3.Connection):
        return _Sqlite(connection)
    if _made_by("psycopg", "Connection", connection):
        return _Psycopg(connection, sys.modules["psycopg"])
    if _made_by("sqlalchemy.orm", "Session", connection):
        return _SqlAlchemy(connection, _driver_of(connection.connection))
    if _made_by("sqlalchemy", "Connection", connection):
        if not connection.in_transaction():
            connection.begin()
        return _SqlAlchemy(connection, _driver_of(lambda: connection))
    raise _bad_connection(connection)


def _driver_of(connect: Callable[[], Any]) -> _Link:
    found = connect().connection.driver_connection
    if isinstance(found, sqlite3.Connection) or _made_by("psycopg", "Connection", found):
        return _link_to(found)
    raise _bad_connection(found)


def _made_by(module: str, name: str, value: object) -> bool:
    kind: Any = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def _bad_connection(found: object) -> InvalidInput:
    kind = f"{type(found).__module__}.{type(found).__qualname__}"
    return InvalidInput(
        f"the ledger cannot use a {kind}. It takes a sqlite3.Connection, a psycopg.Connection, or a Connection or "
        "Session of SQLAlchemy over one of these; none of them async.",
        code="bad_connection",
    )


def _in_transaction() -> Conflict:
    return Conflict(
        "the connection is in a transaction that changed something, or failed: it would be committed, or undone, with "
        "the effect. Commit it or roll it back before once(), and make all changes inside the block.",
        code="in_transaction",
    )


__all__ = ["Effect", "create_table", "once"]
