"""Steps per second as things grow: the history of one execution (10 to 20,000 steps), and what a store already holds
(10,000 to a million executions). On SQLite, everything in this process.

Rounds go through the sizes in turn, so that what else the machine does hits all of them, and medians are compared. Exit
code 1 if the slowest size is more than a fifth slower than the fastest.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from statistics import median

import search

from perdure import durable
from perdure.engine.sweep import LOCAL_WORKER
from perdure.flow import step
from perdure.flow.durable import durable_definition
from perdure.models.catalog import Catalog
from perdure.server.functions import DirectFunctionSource
from perdure.server.node import Node
from perdure.service_loop import ServiceLoop
from perdure.shared_store import open_node
from perdure.store.sqlite import open_sqlite
from perdure.system import SystemClock, SystemRandom, settle_memory
from perdure.worker.declared import start_request
from perdure.worker.functions import FunctionOptions, FunctionWorker

LENGTHS = (10, 1_000, 20_000)
COUNTS = (10_000, 100_000, 1_000_000)
BAR = 0.8
WIDTH = 10
"""Steps of one execution side by side."""
BLOCK = 500
"""Steps between two gates."""
STEPS = 10
CONCURRENCY = 50
gates: dict[int, tuple[SimpleQueue[float], SimpleQueue[bool]]] = {}
"""By the length of a history: when it came to the gate, and whether it goes on."""


async def look(n: int) -> str:
    return "r" * 500


async def gate(length: int) -> bool:
    """Say that everything before is recorded, and wait to be let through."""
    came, may = gates[length]
    came.put(time.perf_counter())
    return await asyncio.to_thread(may.get)


@durable
async def growing(length: int) -> int:
    """Make a history of a length, then a block whenever it is let through."""
    await blocks(length)
    while await step(gate, length):
        await blocks(BLOCK)
    return length


async def blocks(count: int) -> None:
    for start in range(0, count, WIDTH):
        await asyncio.gather(*(step(look, n) for n in range(start, start + WIDTH)))


@durable
async def short(number: int) -> str:
    """Ten steps, one after the other."""
    for n in range(STEPS):
        await step(look, n)
    return "done"


@contextmanager
def serving(store: Path) -> Generator[tuple[Node, ServiceLoop]]:
    """Server and worker in this process."""
    service = ServiceLoop("bench-service")
    service.start()
    node = open_node(store, Catalog(scripted={}))
    node.start(service.loop)
    definitions = [durable_definition(growing), durable_definition(short)]
    source = partial(DirectFunctionSource, node, "default")
    worker = FunctionWorker(source, node.tasks("default"), definitions, FunctionOptions(id_prefix=LOCAL_WORKER))
    running = service.submit(worker.run())
    try:
        service.wait(worker.connected())
        yield node, service
    finally:
        worker.stop()
        running.result()
        node.stop()
        service.stop()


def by_length(folder: Path, lengths: Sequence[int], rounds: int) -> dict[int, list[float]]:
    """Return the steps per second of each round, by the length that the history began with."""
    rates: dict[int, list[float]] = {length: [] for length in lengths}
    with serving(folder / "lengths.db") as (node, service):
        for length in lengths:
            gates[length] = SimpleQueue(), SimpleQueue()
            service.wait(node.api("default").start(start_request(growing, (length,), {}, None)))
            gates[length][0].get()
        settle_memory()
        for _ in range(rounds + 1):
            for length in lengths:
                came, may = gates[length]
                began = time.perf_counter()
                may.put(True)
                rates[length].append(BLOCK / (came.get() - began))
        for _, may in gates.values():
            may.put(False)
    return {length: found[1:] for length, found in rates.items()}


async def drive(node: Node, seconds: float) -> float:
    """Keep executions going; return the steps per second of those that completed."""
    api, until, done = node.api("default"), time.perf_counter() + seconds, 0

    async def lane() -> None:
        nonlocal done
        while time.perf_counter() < until:
            started = await api.start(start_request(short, (done,), {}, None))
            await api.wait(started.id)
            done += 1

    began = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(CONCURRENCY)))
    return done * STEPS / (time.perf_counter() - began)


def by_count(folder: Path, counts: Sequence[int], rounds: int, seconds: float) -> dict[int, list[float]]:
    """Return the steps per second of each round, by how many executions the store held before."""
    rates: dict[int, list[float]] = {count: [] for count in counts}
    with ExitStack() as stack:
        opened: dict[int, Callable[[], float]] = {}
        for count in counts:
            path = folder / f"{count}.db"
            fill(path, count)
            node, service = stack.enter_context(serving(path))
            opened[count] = lambda node=node, service=service: service.wait(drive(node, seconds))
        settle_memory()
        for _ in range(rounds + 1):
            for count, run in opened.items():
                rates[count].append(run())
    return {count: found[1:] for count, found in rates.items()}


def fill(path: Path, count: int) -> None:
    store = open_sqlite(path, clock=SystemClock(), random=SystemRandom())
    try:
        search.fill(store, count)
    finally:
        store.close()


def judge(rates: dict[int, list[float]], what: str) -> bool:
    """Print the rates; say whether they lie close enough together."""
    middle = {size: median(found) for size, found in rates.items()}
    for size, found in rates.items():
        print(f"{size:10,} {what}   {middle[size]:8,.0f} steps/s   ({min(found):,.0f} to {max(found):,.0f})")
    ratio = min(middle.values()) / max(middle.values())
    print(f"slowest / fastest = {ratio:.2f} (at least {BAR})")
    return ratio >= BAR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="*", default=list(LENGTHS))
    parser.add_argument("--counts", type=int, nargs="*", default=list(COUNTS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round with a count")
    parser.add_argument("--no-bar", action="store_true", help="print, and judge nothing")
    options = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        if options.lengths:
            good &= judge(by_length(Path(folder), options.lengths, options.rounds), "steps of history")
        if options.counts:
            good &= judge(by_count(Path(folder), options.counts, options.rounds, options.seconds), "executions stored")
    return 0 if good or options.no_bar else 1


if __name__ == "__main__":
    sys.exit(main())
