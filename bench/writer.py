"""Append events through the writer's thread from many submitters, beside raw `executemany` of the same rows.

Both lock nothing but what they must, write one event and one execution row for each append, and commit with
`synchronous=FULL`. Rounds alternate and medians are compared, so that what else the machine does hits both.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from perdure.core import codec, states
from perdure.core.ids import new_id, shard_of
from perdure.store.batch import Entry
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.rows import ExecutionRow, params_of
from perdure.store.sql_store import load_queries
from perdure.store.sqlite import SqliteStore, open_sqlite
from perdure.store.sqlite_link import Statement
from perdure.store.tx import Tx
from perdure.store.writer import ThreadedWriter
from perdure.system import SystemClock, SystemRandom

DATA = codec.encode({"value": "m" * 1000})
CLOCK, RANDOM = SystemClock(), SystemRandom()

Append = tuple[Ref, str]


@operation()
def append(tx: Tx, rows: Sequence[Append]) -> Steps[int]:
    """Append one event to each execution."""
    yield [ref for ref, _ in rows]
    return [
        tx.append(execution, "step_recorded", address, "d" * 24, DATA)
        for ref, address in rows
        if (execution := tx.execution(ref.execution))
    ]


def executions(store: SqliteStore, count: int) -> list[ExecutionRow]:
    """Commit fresh executions."""
    rows = [_row(new_id("exe", CLOCK, RANDOM)) for _ in range(count)]
    with store.write() as connection:
        connection.many("insert_execution", [params_of(row) for row in rows])
    return rows


def _row(execution: str) -> ExecutionRow:
    return ExecutionRow(
        shard=shard_of(execution),
        id=execution,
        company="default",
        agent="w1",
        definition="d" * 24,
        state=states.Execution.RUNNING,
        ownership=states.Ownership.OWNED,
        fence=1,
        log_format=1,
        created_ms=0,
        updated_ms=0,
    )


class Bridge:
    """Resolves a loop's futures, one call across threads for each batch."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def settle(self, entries: Sequence[Entry]) -> None:
        self._loop.call_soon_threadsafe(self._resolve, entries)

    def _resolve(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            entry.token.set_result(entry.result)


def by_coroutines(store: SqliteStore, lanes: int, seconds: float) -> float:
    """Return appends per second of coroutines on one loop."""
    rows, writer, done = executions(store, lanes), ThreadedWriter(store), 0
    until = time.perf_counter() + seconds

    async def lane(ref: Ref, bridge: Bridge) -> None:
        nonlocal done
        loop = asyncio.get_running_loop()
        while time.perf_counter() < until:
            future: asyncio.Future[int] = loop.create_future()
            writer.submit(append, (ref, "turn/model"), bridge, future)
            await future
            done += 1

    async def run() -> None:
        bridge = Bridge(asyncio.get_running_loop())
        await asyncio.gather(*(lane(row.ref, bridge) for row in rows))

    asyncio.run(run())
    writer.stop()
    return done / seconds


def by_threads(store: SqliteStore, lanes: int, seconds: float) -> float:
    """Return appends per second of threads that block on each."""
    rows, writer, done = executions(store, lanes), ThreadedWriter(store), [0] * lanes
    until = time.perf_counter() + seconds

    def lane(number: int, ref: Ref) -> None:
        while time.perf_counter() < until:
            writer.call(append, (ref, "turn/model"))
            done[number] += 1

    threads = [threading.Thread(target=lane, args=(n, row.ref), name=f"lane {n}") for n, row in enumerate(rows)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.stop()
    return sum(done) / seconds


def raw(store: SqliteStore, lanes: int, seconds: float) -> float:
    """Return appends per second of one loop over `executemany`, with parameters made beforehand."""
    rows = executions(store, lanes)
    event, update = (Statement(load_queries("sqlite")[name]) for name in ("insert_event", "advance_execution"))
    done, until = 0, time.perf_counter() + seconds
    with closing(sqlite3.connect(store.place, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = FULL")
        while time.perf_counter() < until:
            events: list[Any] = [_event(row, event) for row in rows]
            changes = [update.bind(params_of(row)) for row in rows]
            database.execute("BEGIN IMMEDIATE")
            database.executemany(update.sql, changes)
            database.executemany(event.sql, events)
            database.execute("COMMIT")
            done += len(rows)
    return done / seconds


def _event(row: ExecutionRow, statement: Statement) -> tuple[Any, ...]:
    row.next_seq += 1
    place = {"shard": row.shard, "execution": row.id, "seq": row.next_seq - 1, "at_ms": 1, "hash": "c" * 32}
    return statement.bind({**place, "kind": "step_recorded", "address": "turn/model", "digest": "d" * 24, "data": DATA})


WAYS: dict[str, Callable[[SqliteStore, int, float], float]] = {
    "raw executemany": raw,
    "writer, coroutines": by_coroutines,
    "writer, threads": by_threads,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where to write; default: a fresh one beside the code"
    )
    options = parser.parse_args()
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(options.rounds):
        for name, way in WAYS.items():
            with tempfile.TemporaryDirectory(dir=options.folder or Path.cwd()) as folder:
                store = open_sqlite(Path(folder) / "writer.db", clock=CLOCK, random=RANDOM)
                rates[name].append(way(store, options.concurrency, options.seconds))
                store.close()
    ceiling = median(rates["raw executemany"])
    print(f"{options.concurrency} at a time, one event and one execution row each, SQLite, synchronous=FULL:")
    for name, found in rates.items():
        print(f"  {name}: {median(found):,.0f} appends/s, {median(found) / ceiling:.2f} of raw")


if __name__ == "__main__":
    main()
