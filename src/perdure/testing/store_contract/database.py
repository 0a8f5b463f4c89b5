"""What a store brings to be tested, and what the tests share. Holds no promises of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from perdure.core import states
from perdure.core.ids import shard_of
from perdure.store.protocol import Connection, Store
from perdure.store.rows import ExecutionRow
from perdure.store.sql_store import Query, load_queries
from perdure.store.tx import Tx


class Database(Protocol):
    """One empty database, and ways to reach it."""

    def open(self) -> Store:
        """Open a store on it, with `contract_queries`. Called several times, also from several threads at once."""
        ...

    def execute(self, sql: str) -> None:
        """Run and commit one statement behind the store's back."""
        ...

    def cut(self) -> None:
        """End every connection that stores have to it, from the other side. Only for `SharedStoreContract`."""
        ...


def contract_queries(dialect: str) -> Mapping[str, Query]:
    """Return the queries of `dialect` with those of these tests added."""
    return load_queries(dialect, Path(__file__).parent / "sql")


class Contract:
    """The fixtures that all parts use."""

    @pytest.fixture
    def database(self) -> Database:
        raise NotImplementedError("a subclass brings the database")

    @pytest.fixture
    def store(self, database: Database) -> Iterator[Store]:
        store = database.open()
        yield store
        store.close()


def new_execution(execution: str, **columns: Any) -> ExecutionRow:
    """Return a row to insert, owned under fence 1."""
    given: dict[str, Any] = {
        "shard": shard_of(execution),
        "id": execution,
        "company": "default",
        "agent": "tester",
        "definition": "d0",
        "state": states.Execution.RUNNING,
        "reason": None,
        "ownership": states.Ownership.OWNED,
        "fence": 1,
        "next_seq": 1,
        "log_format": 1,
        "active_ms": 0,
        "created_ms": 0,
        "updated_ms": 0,
        "finished_ms": None,
    }
    return ExecutionRow(**(given | columns))


def put_executions(store: Store, *executions: str) -> list[ExecutionRow]:
    """Commit executions with their first event and return them."""
    with store.write() as connection:
        tx = Tx(connection)
        rows = [new_execution(execution) for execution in executions]
        for row in rows:
            tx.create(row)
            tx.append(row, "started")
        tx.flush()
    return rows


def put_key(connection: Connection, key: str, execution: str = "exe_1") -> int:
    """Insert a start key, the smallest row there is; return how many rows that touched."""
    return connection.run("contract_put_key", company="default", start_key=key, execution=execution)


def keys_in(store: Store) -> list[str]:
    """Return the committed start keys in order."""
    with store.read() as reads:
        return [row["start_key"] for row in reads.rows("contract_keys", company="default")]
