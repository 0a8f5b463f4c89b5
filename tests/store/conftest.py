"""A store in a file for tests that need one, and operations small enough to see through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.store.sqlite import SqliteStore, open_sqlite
from perdure.system import SystemClock, SystemRandom
from perdure.testing.store_contract import contract_queries


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = open_sqlite(
        tmp_path / "perdure.db", clock=SystemClock(), random=SystemRandom(), queries=contract_queries("sqlite")
    )
    yield store
    store.close()
