"""Both stores against the public contract."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perdure.store.sqlite import SqliteStore, open_sqlite
from perdure.system import SystemClock, SystemRandom
from perdure.testing.store_contract import SharedStoreContract, StoreContract, contract_queries
from postgres_contract import PostgresDatabase


class SqliteFile:
    """`Database` in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> SqliteStore:
        queries = contract_queries("sqlite")
        return open_sqlite(self.path, clock=SystemClock(), random=SystemRandom(), queries=queries)

    def execute(self, sql: str) -> None:
        with closing(sqlite3.connect(self.path)) as database, database:
            database.execute(sql)

    def cut(self) -> None:
        raise NotImplementedError


class TestSqlite(StoreContract):
    @pytest.fixture
    def database(self, tmp_path: Path) -> SqliteFile:
        return SqliteFile(tmp_path / "store" / "perdure.db")


class TestPostgres(SharedStoreContract):
    @pytest.fixture
    def database(self, postgres_database: str) -> PostgresDatabase:
        return PostgresDatabase(postgres_database)
