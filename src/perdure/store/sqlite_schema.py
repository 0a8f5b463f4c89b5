"""Whether a SQLite file's tables are those that this release makes. Asked only when a query of ours does not fit."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from perdure.store.migrate import every_statement

_NAMES = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"


def altered(database: sqlite3.Connection) -> str:
    """Return the name of a table or an index of ours that is missing or not as it was made; empty if all are."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in every_statement("sqlite"):
            fresh.execute(statement)
        wanted = dict(fresh.execute(_NAMES).fetchall())
    try:
        found = dict(database.execute(_NAMES).fetchall())
    except sqlite3.Error:
        return "sqlite_master"
    return next((name for name, sql in wanted.items() if found.get(name) != sql), "")
