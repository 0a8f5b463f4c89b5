"""Copy what one SQLite connection sees into a file that needs nothing beside it. Syncs nothing: the caller does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def copy_plain(source: sqlite3.Connection, target: Path, *, pages: int, key: str, mark: str) -> None:
    """Fill an empty file with the view of `source`, and write `mark` into its `meta`.

    The file has no log, and says of itself that none is missing (see sqlite_remains.py). `source` is inside a
    transaction, so that all pages are of one moment. Raises what sqlite3 raises.
    """
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        source.backup(copy, pages=pages)
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        copy.execute("PRAGMA journal_mode = DELETE")
        copy.execute("PRAGMA synchronous = FULL")
        copy.execute("BEGIN IMMEDIATE")
        copy.execute(
            "UPDATE meta SET value = (SELECT value FROM meta WHERE key = 'log_mark') WHERE key = 'log_after'",
        )
        copy.execute(
            "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, mark),
        )
        copy.execute("COMMIT")
