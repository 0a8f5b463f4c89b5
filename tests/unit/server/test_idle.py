"""What an idle server asks of its database: at most two queries in a second, with ten workers that wait for tasks.

In virtual time, so that every pause counts in full. `bench/idle.py` counts the same on real databases, over HTTP.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure.agent.tool import definition_of
from perdure.core.work import Lane
from perdure.engine.keys import DEFAULT_COMPANY
from perdure.models.catalog import Catalog
from perdure.server.node import Node, Parts
from perdure.server.tool_source import tools_by
from perdure.store.protocol import Connection, Reads
from perdure.store.sqlite import SqliteStore, open_sqlite
from perdure.testing.clock import LoopClock, SeededRandom
from perdure.testing.simulation import run_simulation
from perdure.worker.loop import Worker, WorkerOptions
from simulated_store import SOUND, LoopReading, LoopWriter

pytestmark = pytest.mark.sqlite_only("virtual time needs a store that answers on the same thread")

BAR = 2.0
WORKERS, TOOLS = 10, 5
SECONDS = 300


@dataclass
class Counted:
    """A connection that counts what is asked on it."""

    inner: Any
    counting: Counting

    def __getattr__(self, name: str) -> Any:
        if name in {"rows", "row", "run", "many", "put", "each"}:
            self.counting.queries += 1
        return getattr(self.inner, name)


class Counting:
    """`Store` over another, which counts transactions and queries."""

    disk = SOUND

    def __init__(self, inner: SqliteStore, *, shared: bool) -> None:
        self.shared = shared
        self.id, self.token_key, self.dialect = inner.id, inner.token_key, inner.dialect
        self.transactions = self.queries = 0
        self._inner = inner

    @contextmanager
    def write(self) -> Generator[Connection]:
        self.transactions += 1
        with self._inner.write() as connection:
            yield Counted(connection, self)  # type: ignore[misc] - all it has is the other's

    @contextmanager
    def read(self) -> Generator[Reads]:
        self.transactions += 1
        with self._inner.read() as reads:
            yield Counted(reads, self)  # type: ignore[misc] - all it has is the other's

    def fleeting(self) -> Counting:
        return self

    def close(self) -> None:
        self._inner.close()


async def noop() -> None:
    """Do nothing."""


async def idle(file: Path, *, shared: bool) -> Counting:
    """Have a server with ten workers wait for some minutes; return what it asked meanwhile."""
    loop, dice = asyncio.get_running_loop(), random.Random(1)
    clock, chance = LoopClock(loop), SeededRandom(1)
    store = Counting(open_sqlite(file, clock=clock, random=chance), shared=shared)
    parts = Parts(
        Catalog(scripted={}, environ={}), clock, chance, tools=tools_by({}),
        writer=partial(LoopWriter, dice=dice), reading=lambda store: LoopReading(store, dice),
    )  # fmt: skip
    node = Node(store, parts)
    node.start(loop)
    tools = {Lane("clerk", f"tool_{number}"): definition_of(noop) for number in range(TOOLS)}
    workers = [
        Worker(
            node.tasks(DEFAULT_COMPANY), tools, WorkerOptions(tool_loop=loop), clock=clock, random=SeededRandom(number)
        )
        for number in range(WORKERS)
    ]
    running = [asyncio.create_task(worker.run()) for worker in workers]
    await asyncio.gather(*(worker.connected() for worker in workers))
    await asyncio.sleep(60)  # virtual
    store.transactions = store.queries = 0
    await asyncio.sleep(SECONDS)
    assert not any(task.done() for task in running)
    return store


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_an_idle_server_with_ten_workers_asks_at_most_two_queries_a_second(tmp_path: Path, shared: bool) -> None:
    store = run_simulation(1, partial(idle, tmp_path / "p.db", shared=shared)).value
    transactions, queries = store.transactions / SECONDS, store.queries / SECONDS
    store.close()
    assert 0 < transactions <= BAR
    assert 0 < queries <= BAR
