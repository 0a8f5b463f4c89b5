"""Which database the stores of a test are in. Tests name a place, as if every store were a file; `--store` says what is
there: a SQLite file, or a PostgreSQL database of that test's own.

Everything that opens a store for a test, in this process or another one, asks here for the place. psycopg is imported
where it is needed: most processes of a test run never do.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from perdure.core.ports import Clock, Random
from perdure.database import is_address
from perdure.server.node import end_former_leases
from perdure.store.clock import StoreClock
from perdure.store.migrate import META_KEYS
from perdure.store.ownership import open_owned
from perdure.store.postgres import PostgresStore, open_postgres
from perdure.store.protocol import Connection, Store
from perdure.store.sql_store import Query, load_queries
from perdure.store.sqlite import open_sqlite
from perdure.system import SystemClock

Kind = Literal["sqlite", "postgres"]

_EMPTY = """
DO $$ DECLARE name TEXT; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'migrations' LOOP
        EXECUTE format('DELETE FROM %I', name);
    END LOOP;
END $$
"""
"""All but which steps it has had; what it says of itself is then written anew, as of another store."""


class Databases:
    """PostgreSQL databases for tests: made when none is free, emptied when a test is done with them.

    They belong to a role that is no superuser, as a user's do: row security says nothing to superusers. Emptying does.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._free: list[str] = []
        self._made = 0

    def take(self) -> str:
        """Return the address of a database with nothing in it."""
        import psycopg

        from postgres_server import as_ordinary_role

        if self._free:
            return self._free.pop()
        self._made += 1
        name = f"store_{self._made}"
        with psycopg.connect(self._server, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}".encode())
        return as_ordinary_role(self._server.replace("/postgres?", f"/{name}?"))

    def give_back(self, address: str) -> None:
        """Put whoever is still connected out, and empty it for the next."""
        import psycopg

        from postgres_server import as_superuser

        with psycopg.connect(as_superuser(address), autocommit=True) as database:
            database.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            database.execute(_EMPTY)
            if database.execute("SELECT to_regclass('meta')").fetchone() != (None,):
                made = {"store_id": f"sto_{secrets.token_hex(16)}", "token_key": secrets.token_hex(32), **META_KEYS}
                for row in made.items():
                    database.execute("INSERT INTO meta (key, value) VALUES (%s, %s)", row)
        self._free.append(address)


@dataclass
class _Now:
    """What is in force for the test that runs."""

    databases: Databases | None = None
    """None: stores are files."""
    places: dict[Path, str] = field(default_factory=dict[Path, str])
    """The database at each place that was asked for."""


_now = _Now()


def kind() -> Kind:
    """Return what stores are in now."""
    return "sqlite" if _now.databases is None else "postgres"


@contextmanager
def stores_in(databases: Databases | None) -> Generator[None]:
    """Have stores in these databases, or in files, while the block lasts."""
    before = _now.databases
    _now.databases = databases
    try:
        with places_of_its_own():
            yield
    finally:
        _now.databases = before


@contextmanager
def places_of_its_own() -> Generator[None]:
    """Give back, at the end, the databases of places that were first asked for in the block."""
    before = set(_now.places)
    try:
        yield
    finally:
        for place in _now.places.keys() - before:
            forget(place)


def store_at(place: Path) -> str:
    """Return how a command names the store at a place: a file's path, or a database's address."""
    if _now.databases is None:
        return str(place)
    if place not in _now.places:
        _now.places[place] = _now.databases.take()
    return _now.places[place]


def forget(place: Path) -> None:
    """Give the database of a place back, if there is one. Nobody uses its store any more."""
    address = _now.places.pop(place, None)
    if address is not None and _now.databases is not None:
        _now.databases.give_back(address)


def open_store(
    place: Path | str,
    *,
    clock: Clock,
    random: Random,
    queries: Callable[[str], Mapping[str, Query]] = load_queries,
) -> Store:
    """Open the store at a place, or at an address that `store_at` gave. `queries` returns those of a dialect.

    Under another clock than the system's its time is that clock's, whatever a database's own says.
    """
    address = store_at(place) if isinstance(place, Path) else place
    if not is_address(address):
        return open_sqlite(address, clock=clock, random=random, queries=queries("sqlite"))
    return by_clock(open_postgres(address, random=random, queries=queries("postgres")), clock)


def own_store(place: Path | str, *, clock: Clock, random: Random) -> tuple[Store, Callable[[], None]]:
    """Open a store as a server does, and return it with what closes it. Who owns a file ends its former owner's leases;
    nobody owns a database, where they run their time."""
    address = store_at(place) if isinstance(place, Path) else place
    if is_address(address):
        store = open_store(address, clock=clock, random=random)
        return store, store.close
    owned = open_owned(address, clock=clock, random=random, on_takeover=end_former_leases)
    return owned.store, owned.close


def by_clock(store: PostgresStore, clock: Clock) -> Store:
    """Return the store with its time taken from a clock that a test moves."""
    return store if type(clock) is SystemClock else _ByClock(store, clock)


class _ByClock:
    """A database's store, and another time. It is asked for nothing else."""

    def __init__(self, store: PostgresStore, clock: Clock) -> None:
        self._store = store
        self._clock = StoreClock(clock, 0)
        self.id, self.token_key = store.id, store.token_key
        self.dialect: str = store.dialect
        self.shared: bool = store.shared
        self.read, self.close = store.read, store.close

    @contextmanager
    def write(self) -> Generator[Connection]:
        with self._store.write() as link:
            yield cast("Connection", _At(link, self._clock.now()))

    def fleeting(self) -> Store:
        return self._store.fleeting()


class _At:
    """A transaction at another time."""

    def __init__(self, link: Connection, now_ms: int) -> None:
        self._link = link
        self.now_ms = now_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)


def files_in(folder: Path) -> list[str]:
    """Return the SQLite stores below a folder: a test that ran on a database has none."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and _is_store(path)]


def _is_store(path: Path) -> bool:
    with path.open("rb") as file:
        if file.read(15) != b"SQLite format 3":
            return False
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = 'executions'").fetchall())
    except sqlite3.Error:
        return False


def rows_of(address: str, sql: str, params: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
    """Run one statement behind a store's back, commit, and return its rows. Parameters are written `:name`."""
    if is_address(address):
        import psycopg

        with psycopg.connect(address) as database:
            for name in params or {}:
                sql = sql.replace(f":{name}", f"%({name})s")
            cursor = database.execute(sql.encode(), params)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(address)) as database, database:
        return database.execute(sql, params or {}).fetchall()


def all_bytes(place: Path, but: Sequence[str] = ()) -> bytes:
    """Return all that is stored at a place: a file with its log, or the rows of every table `but` some."""
    if kind() == "sqlite":
        return b"".join(path.read_bytes() for path in sorted(place.parent.glob(place.name + "*")))
    address = store_at(place)
    tables = rows_of(address, "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    rows = [
        row
        for (name,) in tables
        if name not in but
        for row in rows_of(address, f"SELECT CAST({name} AS TEXT) FROM {name}")
    ]
    return "\n".join(text for (text,) in rows).encode()
