"""What an idle server with idle workers asks of its database, by the second: transactions, and queries within them.

Server and workers are in this process and speak HTTP over loopback, each worker with several tools. Counted where the
store hands out its connections; of a PostgreSQL also by `pg_stat_database`, where nobody else is connected. What begins
and ends a transaction is not counted as a query, nor is the reading of its clock. Without `--postgres`: a SQLite file.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from startup import ten_tools

from perdure.client.tasks import HttpTaskSource
from perdure.models.catalog import Catalog
from perdure.server.node import Node, Parts
from perdure.server.options import ServeOptions
from perdure.server.serve import Ready, serve
from perdure.server.tool_source import tools_by
from perdure.store.postgres import open_postgres
from perdure.store.protocol import Store
from perdure.store.sqlite import open_sqlite
from perdure.system import SystemClock, SystemRandom
from perdure.worker.loop import Worker

BAR = 2.0
QUERIES = frozenset({"rows", "row", "run", "many", "put", "each"})
STATISTICS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
SETTLE_SECONDS = 5.0


@dataclass
class Asked:
    """What was asked so far."""

    transactions: int = 0
    queries: int = 0


class Connection:
    """A connection that counts what is asked on it."""

    def __init__(self, inner: Any, asked: Asked) -> None:
        self._inner, self._asked = inner, asked

    def __getattr__(self, name: str) -> Any:
        self._asked.queries += name in QUERIES
        return getattr(self._inner, name)


class Counting:
    """`Store` over another, which counts."""

    def __init__(self, inner: Any) -> None:
        self.asked = Asked()
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @contextmanager
    def write(self) -> Generator[Any]:
        self.asked.transactions += 1
        with self._inner.write() as connection:
            yield Connection(connection, self.asked)

    @contextmanager
    def read(self) -> Generator[Any]:
        self.asked.transactions += 1
        with self._inner.read() as reads:
            yield Connection(reads, self.asked)


async def idle(store: Counting, workers: int, seconds: float) -> Asked:
    """Let a server and its workers wait for work; return what it asked meanwhile."""
    clock, random = SystemClock(), SystemRandom()
    node = Node(store, Parts(Catalog(scripted={}, environ={}), clock, random, tools=tools_by({})))  # type: ignore[arg-type]
    node.start()
    ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(node, ServeOptions(port=0), on_ready=ready.set_result, stop=stop))
    sources = [HttpTaskSource((await ready).url, ready.result().key) for _ in range(workers)]
    waiting = [Worker(source, ten_tools().lanes()) for source in sources]
    running = [asyncio.create_task(worker.run()) for worker in waiting]
    for worker in waiting:
        await worker.connected()
    await asyncio.sleep(SETTLE_SECONDS)
    before = Asked(store.asked.transactions, store.asked.queries)
    await asyncio.sleep(seconds)
    asked = Asked(store.asked.transactions - before.transactions, store.asked.queries - before.queries)
    for worker in waiting:
        worker.stop()
    await asyncio.gather(*running)
    for source in sources:
        await source.aclose()
    stop.set()
    await serving
    await asyncio.to_thread(node.stop)
    return asked


def measure(store: Store, workers: int, seconds: float) -> bool:
    asked = asyncio.run(idle(Counting(store), workers, seconds))
    transactions, queries = asked.transactions / seconds, asked.queries / seconds
    print(f"{store.dialect}, {workers} idle workers with ten tools: {transactions:.2f} transactions/s, {queries:.2f}"
          f" queries/s   (bar {BAR:g})")  # fmt: skip
    return max(transactions, queries) <= BAR


def measure_postgres(address: str, workers: int, seconds: float) -> bool:
    good = measure(open_postgres(address, random=SystemRandom()), workers, seconds)
    with psycopg.connect(address, autocommit=True) as monitor:
        [count] = monitor.execute(STATISTICS).fetchone() or (0,)
    print(f"pg_stat_database: {count} transactions since its statistics began, all in all")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", default="", metavar="DSN", help="a database for it alone")
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--no-bar", action="store_true", help="only print")
    given = parser.parse_args()
    if given.postgres:
        good = measure_postgres(given.postgres, given.workers, given.seconds)
    else:
        with tempfile.TemporaryDirectory() as folder:
            store = open_sqlite(Path(folder) / "p.db", clock=SystemClock(), random=SystemRandom())
            good = measure(store, given.workers, given.seconds)
    return 0 if good or given.no_bar else 1


if __name__ == "__main__":
    raise SystemExit(main())
