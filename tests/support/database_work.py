"""Count what databases do for whoever asks: statements, rows, and of SQLite the steps of its machine.

Stands in the drivers of Python, `sqlite3` and `psycopg`, below all code of ours. Work is counted and time is not, so
that what else the machine does changes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import psycopg


@dataclass
class Work:
    """What was done since it was last cleared. Connections that are opened inside `counted` add to it."""

    statements: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Each statement, without its values, and how many rows came of it."""
    steps: int = 0
    """How often SQLite's machine went round: once for each row that a statement looks at, at least."""

    def clear(self) -> None:
        self.statements, self.steps = [], 0

    @property
    def asked(self) -> list[str]:
        return [sql for sql, _ in self.statements]

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.statements)


@contextmanager
def counted() -> Iterator[Work]:
    """Count the work of all connections that are opened while the block lasts."""
    work = Work()
    connect, execute = sqlite3.connect, psycopg.Connection.execute

    class Cursor(sqlite3.Cursor):
        def execute(self, sql: str, parameters: Any = (), /) -> Any:
            super().execute(sql, parameters)
            self._sql = sql
            return self

        def fetchall(self) -> list[Any]:
            found = super().fetchall()
            work.statements.append((self._sql, len(found)))
            return found

    class Connection(sqlite3.Connection):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            self.set_progress_handler(self._stepped, 1)

        def _stepped(self) -> int:
            work.steps += 1
            return 0

        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

    def connected(*given: Any, **more: Any) -> sqlite3.Connection:
        return connect(*given, factory=Connection, **more)

    def executed(self: Any, query: Any, *given: Any, **more: Any) -> Any:
        cursor = execute(self, query, *given, **more)
        text = query.decode() if isinstance(query, bytes) else str(query)
        work.statements.append((text, max(cursor.rowcount, 0)))
        return cursor

    with patch.object(sqlite3, "connect", connected), patch.object(psycopg.Connection, "execute", executed):
        yield work
