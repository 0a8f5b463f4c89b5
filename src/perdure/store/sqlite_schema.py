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
# Without an index of words and what SQLite keeps for it: it is made of the rows of another table, by triggers.
_TABLES = r"""SELECT t.name FROM sqlite_master t WHERE t.type = 'table' AND NOT EXISTS (
    SELECT 1 FROM sqlite_master v
    WHERE v.sql LIKE 'CREATE VIRTUAL TABLE %' AND (t.name = v.name OR t.name LIKE v.name || '\_%' ESCAPE '\')
) ORDER BY t.name"""


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
    indexes_of_words = tuple(f"{name}_" for name, sql in wanted.items() if sql.startswith("CREATE VIRTUAL TABLE"))
    # What SQLite keeps for an index of words it words itself, and another release of it may do so otherwise.
    return [
        name
        for name, sql in wanted.items()
        if name not in found or (found[name] != sql and not name.startswith(indexes_of_words))
    ]


@cache
def tables() -> tuple[Table, ...]:
    """Return this release's tables by name."""
    with _fresh() as fresh:
        return tuple(_table(fresh, name) for (name,) in fresh.execute(_TABLES).fetchall())


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
