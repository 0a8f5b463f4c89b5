"""A PostgreSQL database as the store's contract takes one."""

from __future__ import annotations

import psycopg

from perdure.store.postgres import PostgresStore, open_postgres
from perdure.system import SystemRandom
from perdure.testing.store_contract import contract_queries


class PostgresDatabase:
    """`Database` on a server; the store reaches it at an address of its own, where `store_dsn` gives one."""

    def __init__(self, dsn: str, store_dsn: str = "") -> None:
        self.dsn = dsn
        self.store_dsn = store_dsn or dsn

    def open(self) -> PostgresStore:
        return open_postgres(self.store_dsn, random=SystemRandom(), queries=contract_queries("postgres"))

    def execute(self, sql: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as database:
            database.execute(sql.encode())

    def cut(self) -> None:
        self.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'perdure'"
        )
