"""A read-only SQLite connection, lent by the pool for one view at a time."""

from __future__ import annotations

import sqlite3
from typing import Any

from perdure.core.ports import Clock
from perdure.errors import PerdureError, StoreFailed
from perdure.store.life import Life
from perdure.store.protocol import Row
from perdure.store.sqlite_link import SqliteLink, read_too_long


class SqliteReader:
    """Named queries within one view. Used by the thread that was lent it; `expire` alone may come from another."""

    def __init__(self, link: SqliteLink, life: Life, clock: Clock) -> None:
        self._link = link
        self._life = life
        self._clock = clock
        self._expired = False
        self.since_ms = 0
        """When the view in use began, on the monotonic clock."""

    def begin(self) -> None:
        self._expired = False
        self.since_ms = self._clock.monotonic_ms()
        self._link.speak_for("")
        self._link.execute("BEGIN")

    def rows(self, query: str, **params: Any) -> list[Row]:
        if self._expired:
            raise read_too_long()
        try:
            return self._link.rows(query, **params)
        except StoreFailed as error:  # the end of the store, even if the caller goes on
            self._life.fail(error)
            raise

    def row(self, query: str, **params: Any) -> Row | None:
        rows = self.rows(query, **params)
        return rows[0] if rows else None

    def speak_for(self, company: str) -> None:
        self._link.speak_for(company)

    def end(self) -> bool:
        try:
            if self._link.database.in_transaction:
                self._link.execute("ROLLBACK")
        except PerdureError:
            return False
        return self._life.failed is None

    def expire(self) -> None:
        """End the view in use now: its next read raises Retryable (`read_too_long`)."""
        self._expired = True
        try:
            self._link.database.interrupt()
            self._link.database.rollback()  # not through the link: its cursor belongs to the reading thread
        except sqlite3.Error:
            pass  # it ends as soon as its thread looks

    def close(self) -> None:
        self._link.close()
