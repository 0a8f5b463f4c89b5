"""A pooler in transaction mode between the store and PostgreSQL: each transaction may run in another session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from perdure.store.postgres import open_postgres
from perdure.system import SystemRandom
from perdure.testing.store_contract import SharedStoreContract
from poolers import pooled
from postgres_contract import PostgresDatabase


@pytest.fixture(params=["own", "pgbouncer"])
def pooled_database(request: pytest.FixtureRequest, postgres_database: str) -> Iterator[PostgresDatabase]:
    server = postgres_database.partition("host=")[2]
    with pooled(request.param, Path(server)) as folder:
        yield PostgresDatabase(postgres_database, postgres_database.replace(server, str(folder)))


class TestPooled(SharedStoreContract):
    """The whole contract."""

    @pytest.fixture
    def database(self, pooled_database: PostgresDatabase) -> PostgresDatabase:
        return pooled_database


@pytest.mark.parametrize(("given", "used"), [("off", "on"), ("remote_apply", "remote_apply")])
def test_every_transaction_is_as_durable_as_it_has_to_be(
    pooled_database: PostgresDatabase, given: str, used: str
) -> None:
    with psycopg.connect(pooled_database.dsn, autocommit=True) as admin:
        [name] = admin.execute("SELECT current_database()").fetchone() or ("",)
        admin.execute(f"ALTER DATABASE {name} SET synchronous_commit = {given}".encode())
    store = open_postgres(pooled_database.store_dsn, random=SystemRandom())
    for _ in range(20):
        with store.write() as connection:
            assert connection.execute("SHOW synchronous_commit") == [{"synchronous_commit": used}]
            [timeout] = connection.execute("SHOW lock_timeout")
            assert timeout["lock_timeout"] == "15s"
    store.close()


def test_what_the_store_sets_reaches_nobody_else(pooled_database: PostgresDatabase) -> None:
    store = open_postgres(pooled_database.store_dsn, random=SystemRandom())
    with psycopg.connect(pooled_database.store_dsn, autocommit=True, prepare_threshold=None) as other:
        for _ in range(20):
            with store.write():
                pass
            with store.read():
                pass
            rows = other.execute("SELECT name FROM pg_settings WHERE source = 'session' AND name <> 'client_encoding'")
            assert {name for (name,) in rows.fetchall()} <= {"application_name", "DateStyle", "TimeZone"}
    store.close()
