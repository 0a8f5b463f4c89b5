"""What this release's tables look like, and whether a SQLite file's are those. Asked only when something does not fit,
and by whoever checks or copies a store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache

from perdure.store.migrate import every_statement

_NAMES = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the migrations make it, on either database."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    """In capitals: TEXT, BIGINT or INTEGER."""
    required: tuple[bool, ...]
    """Whether a column is NOT NULL."""
    key: tuple[str, ...]
    """The primary key's columns, in its order."""


def altered(database: sqlite3.Connection) -> str:
    """Return the name of a table or an index of ours that is missing or not as it was made; empty if all are."""
    return next(iter(alterations(database)), "")


def alterations(database: sqlite3.Connection) -> list[str]:
    """Return the names of all of them."""
    with _fresh() as fresh:
        wanted = dict(fresh.execute(_NAMES).fetchall())
    try:
        found = dict(database.execute(_NAMES).fetchall())
    except sqlite3.Error:
        return ["sqlite_master"]
    return [name for name, sql in wanted.items() if found.get(name) != sql]


@cache
def tables() -> tuple[Table, ...]:
    """Return this release's tables by name."""
    with _fresh() as fresh:
        names = [name for (name,) in fresh.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return tuple(_table(fresh, name) for name in names)


@cache
def indexes() -> tuple[str, ...]:
    """Return the names of this release's indexes, those of keys left out."""
    with _fresh() as fresh:
        found = fresh.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name")
        return tuple(name for (name,) in found)


def _table(fresh: sqlite3.Connection, name: str) -> Table:
    rows = fresh.execute(f"PRAGMA table_info({name})").fetchall()
    key = sorted((place, column) for _, column, _, _, _, place in rows if place)
    return Table(
        name,
        tuple(row[1] for row in rows),
        tuple(row[2].upper() for row in rows),
        tuple(bool(row[3]) for row in rows),
        tuple(column for _, column in key),
    )


@contextmanager
def _fresh() -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in every_statement("sqlite"):
            fresh.execute(statement)
        yield fresh
