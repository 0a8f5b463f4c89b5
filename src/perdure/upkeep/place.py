"""Which store is meant, and a view of it that changes nothing.

A SQLite file is read through a connection that can neither write nor move its log, so also while a server owns it.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.errors import InvalidInput, PerdureError, Retryable, StoreInUse, Unreachable
from perdure.store import aside, place, sqlite, sqlite_link
from perdure.store.migrate import Migration, Session, check_steps, load_migrations
from perdure.store.ownership import Ownership, lock_file
from perdure.store.postgres import no_driver
from perdure.store.protocol import EVERY_COMPANY, Again, Reads, Row
from perdure.store.sql_store import Query, load_queries
from perdure.store.sqlite_link import SqliteLink, Statement
from perdure.store.sqlite_remains import refuse_damage
from perdure.system import SystemRandom

if TYPE_CHECKING:
    from perdure.store.postgres_link import PostgresLink

_SCHEMES = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class View:
    """A store's content at one moment."""

    where: str
    """The store, as a message names it; no password."""
    dialect: str
    reads: Reads
    session: Session
    link: SqliteLink | PostgresLink

    def steps(self) -> list[Row]:
        """Return the migrations it has had. Raises what `migrate` raises if they are not, or not only, ours."""
        rows = self.reads.rows("steps_applied")
        check_steps(self.where, rows, load_migrations())
        return rows

    def mark(self) -> str:
        """Return why it is not to be run on; empty if it may be: see `store/aside.py`."""
        found = self.reads.row("meta_value", key=aside.KEY)
        return found["value"] if found else ""


def is_address(where: str | os.PathLike[str]) -> bool:
    """Say whether a store's name is the address of a PostgreSQL database, else it is a file's path."""
    return isinstance(where, str) and where.startswith(_SCHEMES)


def existing_file(path: str | os.PathLike[str], what: str = "store") -> Path:
    """Return the real path of a file that is there and may be read.

    Raises InvalidInput: `store_missing`, `store_path` for what is no file, `store_unreadable`, `store_empty`.
    """
    found = Path(os.path.realpath(path))
    try:
        if not found.exists():
            raise _refuse("store_missing", f"{what} {found}", "there is no such file", "name one that is there")
        if not found.is_file():
            raise _refuse("store_path", f"{what} {found}", "it is not a file", "name a store's file")
        empty = found.stat().st_size == 0
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise _refuse("store_unreadable", f"{what} {found}", why, "name another, or mend its mode") from None
    if not os.access(found, os.R_OK):
        raise _refuse("store_unreadable", f"{what} {found}", "this user may not read it", "mend its owner or mode")
    if empty:
        raise _refuse("store_empty", f"{what} {found}", "the file is empty", "name one that Perdure made")
    place.refuse_network(found)
    return found


@contextmanager
def view(where: str | os.PathLike[str], *, queries: Mapping[str, Query] | None = None) -> Generator[View]:
    """Open a view that lasts as long as the block. `queries` come beside those of the store.

    Raises InvalidInput as `existing_file` does, `store_foreign` for a database of another program, `store_empty` for
    one with nothing in it; StoreFailed (`store_corrupt`); Unreachable (`store_unreachable`); Retryable (`store_busy`).
    """
    opened = _postgres_view if is_address(where) else _sqlite_view
    with opened(str(where), dict(queries or {})) as found:
        yield found


@contextmanager
def _sqlite_view(path: str, queries: Mapping[str, Query]) -> Generator[View]:
    file = existing_file(path)
    texts = {**load_queries("sqlite"), **queries}
    try:
        link = sqlite_link.open_link(file, {name: Statement(one) for name, one in texts.items()}, writes=False)
        try:
            link.execute("BEGIN")
            found = View(f"store {file}", "sqlite", link, sqlite.Session(link), link)
            refuse_foreign(found, {row["name"] for row in link.rows("table_names")})
            yield found
        finally:
            link.close()
    except Again as error:
        raise Retryable(f"{error}. Try again when it has finished.", code="store_busy") from error


@contextmanager
def _postgres_view(address: str, queries: Mapping[str, Query]) -> Generator[View]:
    with postgres_link(address, queries, writes=False) as link:
        from perdure.store import postgres_link as postgres  # noqa: PLC0415 - psycopg is an extra

        link.begin_view()
        link.speak_for(EVERY_COMPANY)
        found = View(link.address.shown, "postgres", link, postgres.Session(link), link)
        refuse_foreign(found, {row["name"] for row in link.rows("table_names")})
        yield found


@contextmanager
def postgres_link(address: str, queries: Mapping[str, Query], *, writes: bool) -> Generator[PostgresLink]:
    """Open one connection to a database, with `queries` beside those of the store."""
    try:
        from perdure.store import postgres_link as postgres  # noqa: PLC0415 - psycopg is an extra
    except ImportError as error:
        raise no_driver(error) from error
    try:
        texts = postgres.prepare({**load_queries("postgres"), **queries})
        link = postgres.connect(postgres.Address(address), texts, writes=writes)
        try:
            yield link
        finally:
            link.close()
    except Again as error:
        message = f"{error}. Start it or mend the address, and run this again."
        raise Unreachable(message, code="store_unreachable") from error


def refuse_foreign(found: View, names: set[str]) -> None:
    """Refuse what no release of ours made. Raises InvalidInput: `store_empty`, `store_foreign`."""
    if not names:
        raise _refuse("store_empty", found.where, "nothing is in it", "name a store that Perdure made")
    if not {"migrations", "meta"} <= names:
        shown = ", ".join(sorted(names)[:5])
        raise _refuse("store_foreign", found.where, f"it is another program's (its tables: {shown})", "name another")


def owned_for(where: Path) -> Ownership:
    """Own a SQLite file that is there, its content proved whole. Raises StoreInUse, which names who owns it."""
    ownership = take(where)
    try:
        refuse_damage(ownership.place)
    except BaseException:
        ownership.release()
        raise
    return ownership


def take(where: Path) -> Ownership:
    """Own a SQLite file, whatever is in it. Who wants it meanwhile is told at once that nobody will answer."""
    ownership = Ownership.acquire(where, random=SystemRandom())
    ownership.announce(None, alone=True)
    return ownership


def refuse_damaged_log(where: Path) -> None:
    """Raise StoreFailed if part of a file that nobody owns is missing. Of one in use its owner has made sure."""
    if not lock_file(where).exists():
        return  # never owned: a backup, or a file that was copied alone
    try:
        owned_for(where).release()
    except StoreInUse:
        return
    except PerdureError as error:
        if error.code != "store_unwritable":
            raise


def missing_steps(applied: list[Row]) -> tuple[Migration, ...]:
    """Return the steps of this release that a store has not had."""
    return load_migrations()[len(applied) :]


def _refuse(code: str, where: str, found: str, hint: str) -> InvalidInput:
    return InvalidInput(f"{where}: {found}. A store is expected; {hint}.", code=code)
