"""The store in one SQLite file: WAL, one connection that writes and checkpoints, a few that only read.

A commit is on the disk before `write` returns. Which process may write is decided elsewhere: see ownership.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perdure import failpoints
from perdure.core.ports import Clock, Random
from perdure.errors import InternalError, PerdureError, Retryable, StoreFailed
from perdure.store import place as places
from perdure.store.clock import StoreClock
from perdure.store.life import Life
from perdure.store.migrate import migrate
from perdure.store.pool import ReaderPool
from perdure.store.protocol import Again, Row, Store, Unsound
from perdure.store.sql_store import Query, load_queries, parse
from perdure.store.sqlite_link import SqliteLink, Statement, damaged, open_link
from perdure.store.sqlite_log import WriteAheadLog, begin_anew
from perdure.store.sqlite_reader import SqliteReader
from perdure.store.tx import Tx


def open_sqlite(
    path: str | os.PathLike[str],
    *,
    clock: Clock,
    random: Random,
    queries: Mapping[str, Query] | None = None,
    even_aside: bool = False,
) -> SqliteStore:
    """Open the store in a file, made and brought to this release's tables if need be.

    A process that will write must own the file first: see `ownership.open_owned`. Raises InvalidInput for a place where
    no store can be (`store_path`, `store_unwritable`, `store_network`, `store_foreign`), UserError (`store_newer`, and
    `store_aside` unless `even_aside`), StoreFailed (`store_corrupt`, `store_not_durable`), and Retryable (`store_busy`)
    while another program locks it.
    """
    place = places.prepare(path)
    statements = {name: Statement(query) for name, query in (queries or load_queries("sqlite")).items()}
    try:
        return _open(place, statements, clock, random, even_aside=even_aside)
    except Again as error:
        raise _locked(error) from error


def _open(
    place: Path, statements: Mapping[str, Statement], clock: Clock, random: Random, *, even_aside: bool
) -> SqliteStore:
    link = open_link(place, statements, writes=True)
    try:
        begin_anew(link)
        meta = migrate(Session(link), random, even_aside=even_aside)
        link.raise_wall()
        return SqliteStore(link, statements, clock, meta)
    except BaseException:
        link.close()
        raise


class SqliteStore:
    """`Store` over one file."""

    dialect = "sqlite"
    shared = False

    def __init__(
        self, link: SqliteLink, statements: Mapping[str, Statement], clock: Clock, meta: Mapping[str, str]
    ) -> None:
        self.id = meta["store_id"]
        self.token_key = bytes.fromhex(meta["token_key"])
        self.place = link.place
        self._link = link
        self._clock = StoreClock(clock, int(meta["clock_ms"]))
        self._bound_ms = self._clock.bound_ms
        """The bound that the transaction in progress will have stored."""
        self._epoch: int | None = None
        """Set by `take_over`; from then on each transaction checks that nobody took the store over since."""
        self._file = _identity(link.place)
        self._life = life = Life(f"store {link.place}")
        self._readers = ReaderPool(lambda: SqliteReader(self._open_reading(statements), life, clock))
        self._log = WriteAheadLog(link, self._readers, clock)

    @contextmanager
    def write(self) -> Generator[SqliteLink]:
        self._life.check()
        link = self._link
        try:
            self._log.tend()
            self._begin()
            yield link
            self._commit()
        except Unsound as error:
            self._roll_back()
            failed = damaged(self.place, str(error))
            self._life.fail(failed)
            raise failed from None
        except BaseException as error:
            self._roll_back()
            if isinstance(error, StoreFailed):
                self._life.fail(error)
            raise

    @contextmanager
    def read(self) -> Generator[SqliteReader]:
        self._life.check()
        try:
            with self._readers.reader() as reader:
                yield reader
        except (StoreFailed, Unsound) as error:
            failed = error if isinstance(error, StoreFailed) else damaged(self.place, str(error))
            self._life.fail(failed)
            raise failed from None
        except Again as error:
            raise _locked(error) from error

    def fleeting(self) -> Store:
        raise InternalError(f"store {self.place}: it is one server's own, and all that is written to it has to last")

    def _open_reading(self, statements: Mapping[str, Statement]) -> SqliteLink:
        try:
            link = open_link(self.place, statements, writes=False)
        except StoreFailed:
            self._check_file()  # if it is no longer there, that says more
            raise
        try:
            link.raise_wall()
            self._check_file()
        except StoreFailed:
            link.close()
            raise
        return link

    def take_over(self, on_takeover: Callable[[Tx], None] | None = None) -> int:
        """Begin a new ownership and return its number. The caller holds the file's lock: see ownership.py.

        `on_takeover` runs in the same transaction: it ends what only the former owner could have gone on with, which
        the lock proves gone. Every later transaction of the former owner, should it live after all, is refused with
        StoreFailed (`store_taken`). Raises Retryable (`store_busy`) while another program locks the file.
        """
        try:
            epoch = self._begin_ownership(on_takeover)
        except Again as error:
            raise _locked(error) from error
        failpoints.hit("take_over.after_commit")
        self._epoch = epoch
        try:
            self._log.arm()
        except StoreFailed as error:
            self._life.fail(error)
            raise
        return epoch

    def close(self) -> None:
        """Store the clock, empty the log into the file and let go of it. In a forked child: nothing, it is not ours."""
        if self._life.closed or not self._life.ours:
            return
        try:
            with self.write() as link:
                # No time beyond this one was given out, so the next owner need not start ahead of the wall clock.
                self._store_bound(link.now_ms)
                self._log.even_out()
                failpoints.hit("close.before_commit")
            self._log.uneven = False
            failpoints.hit("close.after_commit")
            self._log.empty()
        except (PerdureError, Again):
            pass  # a full, failed or locked disk: what was acknowledged is in the log
        finally:
            self._life.closed = True
            self._readers.close()
            if self._log.uneven:
                self._link.abandon()
            else:
                self._link.close()

    def _begin_ownership(self, on_takeover: Callable[[Tx], None] | None) -> int:
        with self.write() as link:
            epoch = 1 + self._stored_epoch()
            link.execute("UPDATE meta SET value = ?1 WHERE key = 'owner_epoch'", str(epoch))
            if on_takeover:
                tx = Tx(link)
                on_takeover(tx)
                tx.flush()
            failpoints.hit("take_over.before_commit")
        return epoch

    def _begin(self) -> None:
        link = self._link
        link.spoiled = False
        link.speak_for("")
        link.execute("BEGIN IMMEDIATE")
        if self._epoch is not None:
            self._check_epoch(self._epoch)
        link.now_ms = self._clock.now()
        if link.now_ms > self._clock.bound_ms:
            self._check_file()
            self._store_bound(self._clock.next_bound(link.now_ms))

    def _commit(self) -> None:
        if self._link.spoiled:
            raise InternalError("a statement failed and its error was swallowed: nothing was committed", code="bad_sql")
        self._link.execute("COMMIT")
        self._clock.bound_ms = self._bound_ms

    def _roll_back(self) -> None:
        self._bound_ms = self._clock.bound_ms
        try:
            if self._link.database.in_transaction:
                self._link.execute("ROLLBACK")
        except StoreFailed as error:
            self._life.fail(error)

    def _store_bound(self, bound_ms: int) -> None:
        self._link.execute("UPDATE meta SET value = ?1 WHERE key = 'clock_ms'", str(bound_ms))
        self._bound_ms = bound_ms

    def _check_epoch(self, ours: int) -> None:
        found = self._stored_epoch()
        if found > ours:
            raise StoreFailed(
                f"store {self.place}: another process took it over (ownership {found}, ours was {ours}). Stop this "
                "process; the other one goes on with the work.",
                code="store_taken",
            )
        if found < ours:
            raise Unsound(f"its number of ownership fell from {ours} to {found}")

    def _stored_epoch(self) -> int:
        rows = self._link.execute("SELECT value FROM meta WHERE key = 'owner_epoch'")
        found = rows[0][0] if rows else None
        if not (isinstance(found, str) and found.isdecimal()):
            raise Unsound(f"its number of ownership reads {found!r}")
        return int(found)

    def _check_file(self) -> None:
        """Refuse to go on in a file that is no longer at its place: what is committed there would be lost."""
        if _identity(self.place) != self._file:
            raise StoreFailed(
                f"store {self.place}: the file was moved, deleted or replaced while in use. Put it back, or start "
                "again with the one that is there now.",
                code="store_moved",
            )


class Session:
    """What migrations need of the connection."""

    dialect = "sqlite"

    def __init__(self, link: SqliteLink) -> None:
        self._link = link
        self.where = f"store {link.place}"

    @contextmanager
    def exclusive(self) -> Generator[None]:
        self._link.execute("BEGIN IMMEDIATE")
        try:
            yield
            failpoints.hit("migrate.before_commit")
            self._link.execute("COMMIT")
            failpoints.hit("migrate.after_commit")
        except BaseException:
            if self._link.database.in_transaction:
                self._link.execute("ROLLBACK")
            raise

    def execute(self, sql: str, **params: Any) -> list[Row]:
        return self._link.fetch(Statement(parse("migration", sql)), params)


def _locked(error: Again) -> Retryable:
    return Retryable(f"{error}. Close that program, or try again when it has finished.", code="store_busy")


def _identity(place: Path) -> tuple[int, int] | None:
    try:
        found = place.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
