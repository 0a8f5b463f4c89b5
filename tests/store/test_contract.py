"""Both stores against the public contract."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from perdure.store.postgres import PostgresStore, open_postgres
from perdure.store.sqlite import SqliteStore, open_sqlite
from perdure.system import SystemClock, SystemRandom
from perdure.testing.store_contract import SharedStoreContract, StoreContract, contract_queries


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


class PostgresDatabase:
    """`Database` on a server."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def open(self) -> PostgresStore:
        return open_postgres(self.dsn, random=SystemRandom(), queries=contract_queries("postgres"))

    def execute(self, sql: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as database:
            database.execute(sql.encode())

    def cut(self) -> None:
        self.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'perdure'"
        )


class TestSqlite(StoreContract):
    @pytest.fixture
    def database(self, tmp_path: Path) -> SqliteFile:
        return SqliteFile(tmp_path / "store" / "perdure.db")


class TestPostgres(SharedStoreContract):
    @pytest.fixture
    def database(self, postgres_database: str) -> PostgresDatabase:
        return PostgresDatabase(postgres_database)
