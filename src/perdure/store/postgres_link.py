"""One PostgreSQL connection: how it is opened, and how named queries run on it.

Only this and `postgres_refusals` import psycopg. Knows nothing of what a transaction means: see postgres.py.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, cast

import psycopg
from psycopg import errors as pg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row
from psycopg.types.numeric import Int8Dumper

from perdure import failpoints
from perdure.errors import InternalError, InvalidInput
from perdure.store.postgres_refusals import not_let_in, refusal
from perdure.store.protocol import Again, Params, Row
from perdure.store.sql_store import Query, bad_value, missing, parse

T = TypeVar("T")

_DEFAULTS = {
    "connect_timeout": "5",
    "application_name": "perdure",
    "client_encoding": "UTF8",
    # A host that is gone without a word is noticed within 25 seconds, and not when the system gives up.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""Unless the DSN says otherwise."""
OLDEST = 14
"""The oldest PostgreSQL that a store may be in."""

_SETTINGS = {
    # A process that is stopped inside a transaction must not keep others from the rows it locked. After statements sent
    # in a pipeline this timeout does not run: see server/stalled.py.
    "idle_in_transaction_session_timeout": "5s",
    "lock_timeout": "15s",
    # Queries over names given as JSON are estimated at millions of rows: compiling one costs more than running it does.
    "jit": "off",
}
_OF_WRITES = {
    # What a transaction looks up it looks up by keys, given as JSON, whose number is always estimated at 100: up to
    # some ten thousand executions a scan of them all seemed cheaper, and each commit made one.
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
_WEAK_COMMITS = ("off", "local", "remote_write")
"""Values of synchronous_commit with which an acknowledged commit can be lost."""

_Statement = tuple[Query, Sequence[Params]]
_WRONG = (psycopg.Error, ValueError, OverflowError)
"""What psycopg raises for a statement or a value of it."""

_CLOCK = "SELECT CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT) AS now_ms"
_SPEAK = Query("speak_for", "SELECT set_config('perdure.company', %(company)s, true)", ("company",))
_MIGRATION_LOCK = int.from_bytes(b"perdure", "big")


class Address:
    """Where a database is."""

    def __init__(self, dsn: str) -> None:
        try:
            given = conninfo_to_dict(dsn)
        except psycopg.ProgrammingError as error:
            raise _unreadable(str(error).partition('"')[0]) from None  # what it quotes may hold the password
        host, name = given.get("host") or "the default host", given.get("dbname") or "the default database"
        if "@" in str(host):
            raise _unreadable("a host has an @ in it: in user and password it is written %40")
        self.conninfo = make_conninfo("", **{**_DEFAULTS, **given})
        self.shown = f"PostgreSQL {name} at {host}"
        """For people: no password."""


def _unreadable(why: str) -> InvalidInput:
    return InvalidInput(
        f"the PostgreSQL address cannot be read: {why.strip(' :')}. `postgresql://user@host/database` is expected, or "
        "libpq's `key=value` form.",
        code="store_address",
    )


class _Number(Loader):
    """A `numeric`, which sums of whole numbers become, as the number that SQLite gives."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


def prepare(queries: Mapping[str, Query]) -> Mapping[str, Query]:
    """Return the queries in psycopg's notation."""
    return {name: Query(name, translate(query), query.params) for name, query in queries.items()}


@cache
def translate(query: Query) -> str:
    """Write `:name` as `%(name)s`; a percent sign that was there before stands doubled."""
    return query.render(lambda name: f"%({name})s", lambda text: text.replace("%", "%%"))


class PostgresLink:
    """An open connection. Used by one thread at a time."""

    def __init__(self, address: Address, queries: Mapping[str, Query], database: psycopg.Connection[DictRow]) -> None:
        self.address = address
        self.clock_ms = 0
        """The newest time that was read; none earlier is given out."""
        self.reads_only = False
        self._local: Mapping[str, str] = {}
        """Settings of each transaction, where the next one may be in another session: behind a pooler."""
        self._speaks_for = ""
        """The company that the open transaction's wall lets through."""
        self._queries = queries
        self._database = database
        self._opening = False
        """Whether the open transaction is still to be begun, with its first statement."""
        self._put: list[_Statement] = []
        """To be sent with whatever comes next."""

    @property
    def now_ms(self) -> int:
        """The store's clock in this transaction."""
        if self._opening:
            self._send()
        return self.clock_ms

    @property
    def version(self) -> int:
        """The server's, as PostgreSQL numbers them: 15.4 is 150004."""
        return self._database.info.server_version

    def is_in(self, session: int) -> bool:
        """Say whether this connection is that session's own. A pooler in between greets under a number of its own."""
        return self._database.info.backend_pid == session

    def share_sessions(self, settings: Mapping[str, str]) -> None:
        """Leave nothing in a session: each transaction may be in another one, and others use them in between."""
        self._database.prepare_threshold = None
        self._local = settings

    def rows(self, query: str, **params: Any) -> list[Row]:
        return self._run(query, params, _all)

    def row(self, query: str, **params: Any) -> Row | None:
        rows = self.rows(query, **params)
        return rows[0] if rows else None

    def run(self, query: str, **params: Any) -> int:
        return self._run(query, params, attrgetter("rowcount"))

    def many(self, query: str, params: Sequence[Params]) -> None:
        if params:
            self._put.append((self._find(query), params))

    def each(self, query: str, params: Sequence[Params]) -> list[list[Row]]:
        self._send()
        found = self._find(query)
        results: list[list[Row]] = []
        if not params:
            return results
        try:
            with self._database.cursor() as cursor:
                cursor.executemany(found.sql.encode(), params, returning=True)
                more: bool | None = True
                while more:
                    results.append(_all(cursor) if cursor.description else [])
                    more = cursor.nextset()
        except _WRONG as error:
            raise self._refusal(error, (found, params)) from error
        return results

    def execute(self, sql: str, params: Params | None = None) -> list[Row]:
        """Run one statement of the store's own, with errors told like those of queries."""
        self._send()
        try:
            cursor = self._database.execute(sql.encode(), params)
            return _all(cursor) if cursor.description else []
        except psycopg.Error as error:
            raise refusal(error, self.address.shown) from error

    def speak_for(self, company: str) -> None:
        if company != self._speaks_for:  # for this transaction alone: the next one may be another's, behind a pooler
            self._put.append((_SPEAK, [{"company": company}]))
            self._speaks_for = company

    def begin(self) -> None:
        """Open a transaction: it is begun, and the clock looked at, in one round trip with its first statement."""
        self._speaks_for = ""
        self._put.clear()
        self._opening = True

    def _begin(self) -> psycopg.Cursor[DictRow]:
        # Whatever the administrator's default is. Named locks and guards do the rest.
        self._database.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        self._set_local()
        return self._database.execute(_CLOCK)

    def begin_view(self) -> None:
        """Open a transaction that sees one state of the database, and changes nothing."""
        self._speaks_for = ""
        try:
            with self._database.pipeline() if self._local else nullcontext():
                self._database.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                self._set_local()
        except psycopg.Error as error:
            raise refusal(error, self.address.shown) from error

    def _set_local(self) -> None:
        if self._local:
            self._database.execute(_settings(self._local, only_here=True).encode(), self._local)

    def commit(self) -> None:
        """Commit, in one round trip with what was put last. Raises Again if the answer was lost: then it may have
        happened."""
        if self._opening and not self._put:  # nothing was asked of it
            self._opening = False
            return
        done = self._send(b"COMMIT")
        if done is None or done.statusmessage != "COMMIT":
            raise InternalError("a statement failed and its error was swallowed: nothing was committed", code="bad_sql")

    def roll_back(self) -> bool:
        """End whatever is open. False if the connection is of no more use."""
        self._opening = False
        self._put.clear()
        if self._database.closed:
            return False
        try:
            if self._database.info.transaction_status != TransactionStatus.IDLE:
                self._database.execute("ROLLBACK")
        except psycopg.Error:
            return False
        return not self._database.closed

    def close(self) -> None:
        self._database.close()

    def _find(self, query: str) -> Query:
        try:
            return self._queries[query]
        except KeyError:
            raise missing(self._queries, query) from None

    def _run(self, query: str, params: Params, told: Callable[[psycopg.Cursor[DictRow]], T]) -> T:
        found = self._find(query)
        done = self._send(found.sql.encode(), (found, [params]))
        assert done is not None
        return told(done)

    def _send(self, sql: bytes = b"", of: _Statement | None = None) -> psycopg.Cursor[DictRow] | None:
        """Begin the transaction if that is still to be done, send what was put, and then one statement, all in one
        round trip; return what the database says to that one. `of`: whose it is, with its one row of parameters."""
        opening, self._opening = self._opening, False
        put, self._put = self._put, []
        clock = done = None
        try:
            with self._database.pipeline() if put or opening else nullcontext():
                if opening:
                    clock = self._begin()
                for query, params in put:
                    self._database.cursor().executemany(query.sql.encode(), params)
                if sql:
                    done = self._database.execute(sql, of[1][0] if of else None)
            if clock is not None:
                self.clock_ms = max(self.clock_ms, _all(clock)[0]["now_ms"])
        except _WRONG as error:
            raise self._refusal(error, *put, *([of] if of else [])) from error
        return done

    def _refusal(self, error: Exception, *sent: _Statement) -> Exception:
        names = ", ".join(query.name for query, _ in sent)
        if isinstance(error, pg.ReadOnlySqlTransaction) and self.reads_only:
            return InternalError(f"query {names} writes, and was run by a reader: {error}", code="bad_sql")
        if isinstance(error, psycopg.Error) and not (sent and isinstance(error, psycopg.DataError)):
            return refusal(error, self.address.shown, names)
        # A value that psycopg would not send, or the database not take.
        wrong = [bad_value(query.name, one, query.params) for query, params in sent for one in params]
        return next((found for found in wrong if isinstance(found, InvalidInput)), wrong[0])


def _all(cursor: psycopg.Cursor[DictRow]) -> list[Row]:
    return cast("list[Row]", cursor.fetchall())


def connect(address: Address, queries: Mapping[str, Query], *, writes: bool, lasting: bool = True) -> PostgresLink:
    """Open a connection to a database that a store can be in. Raises Again if it cannot be reached.

    Without `lasting` an acknowledged commit may be lost with the database.
    """
    try:
        database = psycopg.Connection[DictRow].connect(address.conninfo, autocommit=True, row_factory=dict_row)
    except psycopg.OperationalError as error:
        raise not_let_in(address.shown, " ".join(str(error).split())) from None
    # One type for every whole number: otherwise each size of number makes a prepared statement of its own.
    database.adapters.register_dumper(int, Int8Dumper)
    database.adapters.register_loader("numeric", _Number)
    database.prepared_max = 1_000
    link = PostgresLink(address, queries, database)
    try:
        _configure(link, writes=writes, lasting=lasting)
    except BaseException:
        link.close()
        raise
    return link


def connect_again(
    address: Address, queries: Mapping[str, Query], *, writes: bool, lasting: bool = True
) -> PostgresLink:
    """Open a further connection to a database that was the right one before. Every refusal passes: in the middle of a
    failover the address may lead to a standby."""
    try:
        return connect(address, queries, writes=writes, lasting=lasting)
    except InvalidInput as error:
        raise Again(error.message) from error


def _configure(link: PostgresLink, *, writes: bool, lasting: bool) -> None:
    if (major := link.version // 10_000) < OLDEST:
        raise InvalidInput(
            f"{link.address.shown} runs PostgreSQL {major}; {OLDEST} or newer is expected. Upgrade it, or name another "
            "one.",
            code="store_too_old",
        )
    found = link.execute(
        "SELECT pg_is_in_recovery() AS standby, current_setting('server_encoding') AS encoding, "
        "current_setting('synchronous_commit') AS commits, pg_backend_pid() AS session"
    )[0]
    if found["standby"]:
        raise InvalidInput(
            f"{link.address.shown} is a standby, which lags behind and takes no writes. Give the address of the "
            "primary, or several hosts with target_session_attrs=primary.",
            code="store_standby",
        )
    if found["encoding"] != "UTF8":
        raise InvalidInput(
            f"{link.address.shown} is encoded in {found['encoding']}, which cannot hold every text. Create the "
            "database with ENCODING 'UTF8' TEMPLATE template0.",
            code="store_encoding",
        )
    link.reads_only = not writes
    commits = "on" if found["commits"] in _WEAK_COMMITS else found["commits"]
    settings = {**_SETTINGS, **(_OF_WRITES if writes else {}), "synchronous_commit": commits if lasting else "off"}
    if link.is_in(found["session"]):
        link.execute(_settings(settings, only_here=False), settings)
    else:
        link.share_sessions(settings)


def _settings(settings: Mapping[str, str], *, only_here: bool) -> str:
    """Return the statement that makes these settings: for the session, or for the transaction it is run in."""
    scope = "true" if only_here else "false"
    return "SELECT " + ", ".join(f"set_config('{name}', %({name})s, {scope})" for name in settings)


class PostgresReader:
    """A read-only connection, lent by the pool for one view at a time."""

    def __init__(self, address: Address, queries: Mapping[str, Query]) -> None:
        self._address = address
        self._queries = queries
        self._link = connect_again(address, queries, writes=False)

    def begin(self) -> None:
        try:
            self._link.begin_view()
        except Again:  # it lay idle while the server was restarted
            self._link.close()
            self._link = connect_again(self._address, self._queries, writes=False)
            self._link.begin_view()

    def rows(self, query: str, **params: Any) -> list[Row]:
        return self._link.rows(query, **params)

    def row(self, query: str, **params: Any) -> Row | None:
        return self._link.row(query, **params)

    def speak_for(self, company: str) -> None:
        self._link.speak_for(company)

    def end(self) -> bool:
        return self._link.roll_back()

    def close(self) -> None:
        self._link.close()


class Session:
    """What migrations need of the connection."""

    dialect = "postgres"

    def __init__(self, link: PostgresLink) -> None:
        self._link = link
        self.where = link.address.shown

    @contextmanager
    def exclusive(self) -> Generator[None]:
        self._link.begin()
        try:
            self._link.execute("SET LOCAL lock_timeout = 0")  # another process's migration may take long
            self._link.execute(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            yield
            failpoints.hit("migrate.before_commit")
            self._link.commit()
            failpoints.hit("migrate.after_commit")
        except BaseException:
            self._link.roll_back()
            raise

    def execute(self, sql: str, **params: Any) -> list[Row]:
        return self._link.execute(translate(parse("migration", sql)), params)
