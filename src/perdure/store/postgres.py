"""The store in a PostgreSQL database: one connection that writes, a few that only read.

Needs the extra `postgres`; nothing of it is imported before a database is opened.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perdure.core.ports import Random
from perdure.errors import InvalidInput, StoreFailed, Unreachable
from perdure.store.life import Life
from perdure.store.migrate import migrate
from perdure.store.pool import ReaderPool
from perdure.store.protocol import Again, Unsound
from perdure.store.sql_store import Query, load_queries

if TYPE_CHECKING:
    from perdure.store.postgres_link import Address, PostgresLink, PostgresReader


def open_postgres(dsn: str, *, random: Random, queries: Mapping[str, Query] | None = None) -> PostgresStore:
    """Open the store in a database, brought to this release's tables if need be.

    Raises InvalidInput: `missing_extra` without psycopg, `store_address` for a DSN that cannot be read, `store_login`,
    `store_no_database`, `store_too_old`, `store_standby`, `store_encoding`; Unreachable (`store_unreachable`);
    Retryable (`store_no_rights`); UserError (`store_newer`); StoreFailed (`store_corrupt`).
    """
    try:
        from perdure.store import postgres_link  # noqa: PLC0415 - psycopg is an extra, and slow to import
    except ImportError as error:
        raise no_driver(error) from error
    prepared = postgres_link.prepare(queries or load_queries("postgres"))
    address = postgres_link.Address(dsn)
    try:
        link = postgres_link.connect(address, prepared, writes=True)
        try:
            meta = migrate(postgres_link.Session(link), random)
        except BaseException:
            link.close()
            raise
    except Again as error:
        raise Unreachable(f"{error}. Start it, or mend the address.", code="store_unreachable") from error
    return PostgresStore(address, prepared, link, meta)


def no_driver(error: ImportError) -> InvalidInput:
    """Return the refusal of a store for which psycopg, an extra, is missing."""
    return InvalidInput(
        f"a PostgreSQL store needs psycopg 3, which could not be imported ({error}): pip install 'perdure[postgres]'.",
        code="missing_extra",
    )


class PostgresStore:
    """`Store` over one database. `write` connects again by itself after a connection was lost."""

    dialect = "postgres"
    shared = True

    def __init__(
        self,
        address: Address,
        queries: Mapping[str, Query],
        link: PostgresLink | None,
        meta: Mapping[str, str],
        *,
        lasting: bool = True,
    ) -> None:
        """`link` is one that writes; without it one is opened when it is needed. `lasting`: commits wait for the
        disk."""
        self.id = meta["store_id"]
        self.where = address.shown
        """For people: no password."""
        self.token_key = bytes.fromhex(meta["token_key"])
        self._address = address
        self._queries = queries
        self._meta = meta
        self._lasting = lasting
        self._link = link
        self._last_ms = 0
        """Of the database's clock, kept from stepping back for this process when another host takes over."""
        self._life = Life(address.shown)
        self._readers: ReaderPool[PostgresReader] = ReaderPool(self._open_reader)

    @contextmanager
    def write(self) -> Generator[PostgresLink]:
        self._life.check()
        link = self._connected()
        try:
            link.begin()
            yield link
            link.commit()
        except BaseException as error:
            if not link.roll_back():
                link.close()
                self._last_ms = link.clock_ms
                self._link = None
            if isinstance(error, Unsound):
                raise self._damaged(str(error)) from None
            if isinstance(error, StoreFailed):
                self._life.fail(error)
            raise

    @contextmanager
    def read(self) -> Generator[PostgresReader]:
        self._life.check()
        try:
            with self._readers.reader() as reader:
                yield reader
        except Unsound as error:
            raise self._damaged(str(error)) from None
        except Again as error:
            raise Unreachable(f"{error}; try again", code="store_unreachable") from error

    def fleeting(self) -> PostgresStore:
        return PostgresStore(self._address, self._queries, None, self._meta, lasting=False)

    def close(self) -> None:
        if not self._life.ours:
            return  # closing it here would end the parent's connection
        self._life.closed = True
        self._readers.close()
        if self._link:
            self._link.close()
            self._link = None

    def _damaged(self, why: str) -> StoreFailed:
        """Return the error for a row that no release wrote. Nothing goes on in such a database."""
        failed = StoreFailed(
            f"{self.where}: {why}. An index of it is damaged, or another program altered it: REINDEX the database, or "
            "restore it from a backup, and restart this process.",
            code="store_corrupt",
        )
        self._life.fail(failed)
        return failed

    def _connected(self) -> PostgresLink:
        if self._link is None:
            self._link = self._open_link()
            self._link.clock_ms = self._last_ms
        return self._link

    def _open_link(self) -> PostgresLink:
        from perdure.store.postgres_link import connect_again  # noqa: PLC0415 - see open_postgres

        return connect_again(self._address, self._queries, writes=True, lasting=self._lasting)

    def _open_reader(self) -> PostgresReader:
        from perdure.store.postgres_link import PostgresReader  # noqa: PLC0415 - see open_postgres

        return PostgresReader(self._address, self._queries)
