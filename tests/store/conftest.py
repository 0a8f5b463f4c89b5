"""A store in a file for tests that need one, and the engine's bench over each of the two databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from engine_bench import Bench, file_bench_in
from perdure.store.postgres import open_postgres
from perdure.store.sqlite import SqliteStore, open_sqlite
from perdure.system import SystemClock, SystemRandom
from perdure.testing.clock import FakeClock, SeededRandom
from perdure.testing.store_contract import contract_queries
from room_bench import RoomBench


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = open_sqlite(
        tmp_path / "perdure.db", clock=SystemClock(), random=SystemRandom(), queries=contract_queries("sqlite")
    )
    yield store
    store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """The engine's operations over each database in turn."""
    if request.param == "sqlite":
        with file_bench_in(tmp_path) as made:
            yield made
        return
    store = open_postgres(request.getfixturevalue("store_database"), random=SeededRandom())
    try:
        yield Bench(store, FakeClock())
    finally:
        store.close()


@pytest.fixture
def room(bench: Bench) -> RoomBench:
    """A room of two companies, over each database in turn."""
    return RoomBench(bench)


@pytest.fixture
def servers(store_database: str) -> Iterator[tuple[Bench, Bench]]:
    """The engine's operations over one PostgreSQL, twice."""
    with ExitStack() as open_ones:
        stores = [open_postgres(store_database, random=SeededRandom(n)) for n in (1, 2)]
        for store in stores:
            open_ones.callback(store.close)
        first, second = (Bench(store, FakeClock()) for store in stores)
        yield first, second
