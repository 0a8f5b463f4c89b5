"""Move a SQLite store into an empty PostgreSQL database: in batches, resumable after a kill at any point, compared row
by row at the end.

Whoever copies owns the file, so nobody runs on it meanwhile. The copy carries a mark until it is proved; before that
mark goes, the source gets one. At no moment could a server run on both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure import failpoints
from perdure.engine.sweep import Sweep, take_over
from perdure.errors import Conflict, InternalError, InvalidInput, StoreFailed
from perdure.store import aside
from perdure.store.migrate import migrate
from perdure.store.protocol import EVERY_COMPANY, Reads, Row
from perdure.store.sqlite import SqliteStore, open_sqlite
from perdure.store.sqlite_schema import Table, tables
from perdure.store.tx import Tx
from perdure.system import SystemClock, SystemRandom
from perdure.upkeep.checking import check_store
from perdure.upkeep.place import View, existing_file, is_address, owned_for, postgres_link, view
from perdure.upkeep.tables import batches, between, count_of, last_key, table_queries

if TYPE_CHECKING:
    from perdure.store.postgres_link import PostgresLink

_OWN = frozenset({"meta", "migrations"})
"""Tables that each store fills by itself."""
MOVED = ("store_id", "token_key")
"""What of `meta` the copy takes over: it is the same store, and tokens that were given out stay good."""

Progress = Callable[[str, int], None]
"""Told a table's name and how many of its rows are there, now and then."""


def _silent(_table: str, _rows: int) -> None:
    return


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy did."""

    source: str
    target: str
    rows: dict[str, int]
    """By table."""
    resumed: bool
    logs: int
    events: int
    """Whose hashes were followed in the copy."""


def copy(source: str | os.PathLike[str], target: str, *, progress: Progress = _silent) -> Copied:
    """Copy every row, compare every row, follow every log of the copy; then the source is not to be run on any more.

    Call it again after it was killed, and it goes on where it was; if the source was run on meanwhile, from the
    beginning. Raises InvalidInput (`copy_direction`, and as `view`), StoreInUse while anybody owns the source, Conflict
    (`target_not_empty`, `target_other`), StoreFailed (`copy_wrong`) if the two differ in the end.
    """
    if is_address(source) or not is_address(target):
        raise InvalidInput(
            "a SQLite file is copied into a PostgreSQL database, and not otherwise: nothing proves that no server runs "
            "on a database. --store PATH and postgresql://user@host/database are expected.",
            code="copy_direction",
        )
    file = existing_file(source)
    with view(file):
        pass  # refused here if it is no store, before anybody owns or opens it
    ownership = owned_for(file)
    try:
        clock, random = SystemClock(), SystemRandom()
        store = open_sqlite(ownership.place, clock=clock, random=random, even_aside=True)
        with closing(store), postgres_link(target, table_queries(), writes=True) as link:
            return _copy(store, link, target, progress)
    finally:
        ownership.release()


def _copy(store: SqliteStore, link: PostgresLink, address: str, progress: Progress) -> Copied:
    _refuse_other_rows(store, link)
    mark, resumed = _begin(store, link)
    with view(store.place, queries=table_queries()) as source:
        for table in _moved():
            _fill(source, link, table, progress)
        rows = {table.name: _compare(source, link, table) for table in _moved()}
    failpoints.hit("copy.compared")
    with _written(link):
        for key in MOVED:
            link.run("set_meta", key=key, value=_meta(store, key))
    report = check_store(address)
    if not report.ok:
        first = report.problems[0]
        raise StoreFailed(
            f"{report.store}: the copy does not hold ({first.table} {first.row}: {first.what}). `perdure db check` on "
            "the source says whether it came from there. The source was not changed.",
            code="copy_wrong",
        )
    with store.write() as connection:
        connection.run("set_meta", key=aside.KEY, value=f"{aside.COPIED} {store.id} {link.address.shown}")
    failpoints.hit("copy.source_marked")
    with _written(link):
        if _mark(link) != mark:
            raise Conflict(f"{link.address.shown}: somebody else copied into it meanwhile.", code="target_other")
        link.run("delete_meta", key=aside.KEY)
    return Copied(f"store {store.place}", link.address.shown, rows, resumed, report.logs, report.events)


def _refuse_other_rows(store: SqliteStore, link: PostgresLink) -> None:
    """Refuse a target with anything in it that is not ours to go on with."""
    from perdure.store.postgres_link import Session  # noqa: PLC0415 - psycopg is an extra

    with _seen(link):
        names = {row["name"] for row in link.rows("table_names")}
        mark = _mark(link) if {"migrations", "meta"} <= names else ""
        full = [table.name for table in _moved() if table.name in names and link.row(f"any {table.name}")]
    if names and not {"migrations", "meta"} <= names:
        raise Conflict(
            f"{link.address.shown}: another program's tables are in it ({', '.join(sorted(names)[:5])}). Make an empty "
            "database: CREATE DATABASE … ENCODING 'UTF8'.",
            code="target_not_empty",
        )
    if mark.startswith(f"{aside.COPYING} "):
        if mark.split(" ")[1] != store.id:
            raise Conflict(
                f"{link.address.shown}: half a copy of another store ({mark.split(' ')[1]}) is in it. Go on with that "
                "one, or make an empty database.",
                code="target_other",
            )
    elif mark or full:
        what = ", ".join(full[:5]) or "its mark"
        raise Conflict(
            f"{link.address.shown}: a store is in it already (rows in {what}). Nothing was changed; make an empty "
            "database.",
            code="target_not_empty",
        )
    migrate(Session(link), SystemRandom(), even_aside=True)


def _begin(store: SqliteStore, link: PostgresLink) -> tuple[str, bool]:
    """Mark the target as a copy of the source as it is now; return the mark, and whether that copy had begun before."""
    mark = f"{aside.COPYING} {store.id} {_meta(store, 'owner_epoch')}"
    source_mark = _meta(store, aside.KEY)
    if source_mark and not source_mark.startswith(f"{aside.COPIED} {store.id} "):
        aside.refuse_aside(source_mark, f"store {store.place}")
    if _mark(link) == mark:
        return mark, True
    if source_mark:
        aside.refuse_aside(source_mark, f"store {store.place}")  # it was copied, and elsewhere
    epoch = store.take_over(_end_leases)
    mark = f"{aside.COPYING} {store.id} {epoch}"
    with _written(link):
        for table in _moved():
            link.run(f"empty {table.name}")
        link.run("set_meta", key=aside.KEY, value=mark)
    failpoints.hit("copy.begun")
    return mark, False


def _end_leases(tx: Tx) -> None:
    """End what the file's last owner held itself: the lock proves it gone."""
    steps = take_over.apply(tx, [Sweep(0)])
    tx.lock(next(steps))
    for _ in steps:
        raise InternalError("take_over yielded twice")


def _fill(source: View, link: PostgresLink, table: Table, progress: Progress) -> None:
    """Copy what is missing of a table. Batches go in the order of keys, so the last key there says what is there."""
    with _seen(link):
        done, last = count_of(link, table), last_key(link, table)
    for _, _, rows in batches(source.reads, table, last):
        with _written(link):
            link.many(f"insert {table.name}", rows)
        failpoints.hit("copy.batch")
        done += len(rows)
        progress(table.name, done)


def _compare(source: View, link: PostgresLink, table: Table) -> int:
    """Compare every row of a table, and return how many there are."""
    with _seen(link):
        return _compare_all(source, link, table)


def _compare_all(source: View, link: PostgresLink, table: Table) -> int:
    count = 0
    for after, upto, rows in batches(source.reads, table):
        count += len(rows)
        found = between(link, table, after, upto)
        if found != rows:
            raise _differs(table, next((row for row, other in zip(rows, found, strict=False) if row != other), upto))
    if count_of(link, table) != count:
        raise _differs(table, None)
    return count


def _differs(table: Table, row: Row | None) -> StoreFailed:
    key = ", ".join(f"{name} {row[name]}" for name in table.key) if row else "(one that the source has not)"
    return StoreFailed(
        f"table {table.name}: the copy differs from its source at row {key}. The source was not changed; make an empty "
        "database and copy again.",
        code="copy_wrong",
    )


def _moved() -> list[Table]:
    return [table for table in tables() if table.name not in _OWN]


def _mark(reads: Reads) -> str:
    row = reads.row("meta_value", key=aside.KEY)
    return row["value"] if row else ""


def _meta(store: SqliteStore, key: str) -> str:
    with store.read() as reads:
        row = reads.row("meta_value", key=key)
    return row["value"] if row else ""


@contextmanager
def _seen(link: PostgresLink) -> Generator[None]:
    """One view of the target, all companies' rows in it."""
    link.begin_view()
    try:
        link.speak_for(EVERY_COMPANY)
        yield
    finally:
        link.roll_back()


@contextmanager
def _written(link: PostgresLink) -> Generator[None]:
    """One transaction on the target."""
    link.begin()
    try:
        link.speak_for(EVERY_COMPANY)
        yield
        link.commit()
    except BaseException:
        link.roll_back()
        raise
