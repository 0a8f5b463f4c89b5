"""How long after a model said it a piece of its reply is read, and what is written for that.

Models say a few words at a time, and each piece carries when it was said. Read in-process: where the model is asked
and, with `--postgres`, at another server of the database too. Without it: one server on a SQLite file.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

from perdure.agent.spec import AgentSpec, spec_to_json
from perdure.core.live import Delta
from perdure.core.views import StartRequest
from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest
from perdure.server.executor import ExecutorOptions
from perdure.server.node import Node, Parts
from perdure.store.postgres import open_postgres
from perdure.store.protocol import Store
from perdure.store.sqlite import open_sqlite
from perdure.system import SystemClock, SystemRandom

BAR_MS = 1_000.0
"""Half of the pieces have to come through another server within that."""


@dataclass
class Written:
    """What was written to tell others."""

    commits: int = 0
    rows: int = 0
    characters: int = 0


class Connection:
    """A connection that counts."""

    def __init__(self, inner: Any, written: Written) -> None:
        self._inner, self._written = inner, written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def many(self, query: str, params: Sequence[Any]) -> None:
        self._written.rows += len(params)
        self._written.characters += sum(len(row.get("piece") or "") for row in params)
        self._inner.many(query, params)


class Fleeting:
    """A store for what need not last, which counts."""

    def __init__(self, inner: Any, written: Written) -> None:
        self._inner, self._written = inner, written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @contextmanager
    def write(self) -> Generator[Any]:
        self._written.commits += 1
        with self._inner.write() as connection:
            yield Connection(connection, self._written)


class Counting:
    """`Store` over another, which counts what it writes that need not last."""

    def __init__(self, inner: Any) -> None:
        self.written = Written()
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def fleeting(self) -> Any:
        return Fleeting(self._inner.fleeting(), self.written)


@dataclass(frozen=True)
class Speech:
    """What models say."""

    replies: int
    """At a time."""
    pieces: int
    """Of each."""
    rate: float
    """Pieces a second."""

    async def speak(self, _request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        """Say when it is said, again and again."""
        for _ in range(self.pieces):
            await asyncio.sleep(1 / self.rate)
            yield f"{time.monotonic_ns()} "


async def read(node: Node, execution: str) -> list[float]:
    """Return how many milliseconds after it was said each piece came."""
    found: list[float] = []
    async for one in node.api("default").follow_live(execution):
        if isinstance(one, Delta):
            now_ns = time.monotonic_ns()
            found += [(now_ns - int(said)) / 1e6 for said in one.text.split()]
    return found


async def told(asking: Node, reading: Sequence[Node], speech: Speech) -> list[list[float]]:
    """Have models speak; return for each reading node when it came."""
    spec = spec_to_json(AgentSpec("speaker", "scripted/speaker", ""))
    begun = [await asking.api("default").start(StartRequest(spec, "go")) for _ in range(speech.replies)]
    ends = [asyncio.gather(*(read(node, one.id) for one in begun)) for node in reading]
    return [[delay for delays in await end for delay in delays] for end in ends]


def shown(what: str, delays: Sequence[float]) -> float:
    """Print how late pieces came; return the middle."""
    if len(delays) < 2:
        print(f"{what}: hardly any piece came before the record")
        return float("inf")
    marks = quantiles(delays, n=100)
    print(f"{what}: p50 {marks[49]:.1f} ms, p99 {marks[98]:.1f} ms, of {len(delays)} pieces")
    return marks[49]


def node_on(store: Any, speech: Speech, capacity: int = 500) -> Node:
    """Return a server that runs. `capacity`: executions it may drive."""
    models = Catalog(scripted={"speaker": speech.speak}, environ={})
    node = Node(store, Parts(models, SystemClock(), SystemRandom(), ExecutorOptions(capacity=capacity)))
    node.start()
    return node


def alone(store: Store, speech: Speech) -> bool:
    """Measure where the model is asked."""
    with ExitStack() as ends:
        node = node_on(store, speech)
        ends.callback(node.stop)
        [here] = asyncio.run(told(node, [node], speech))
    shown(f"{store.dialect}, read where the model is asked", here)
    return True


def through_another(address: str, speech: Speech) -> bool:
    """Measure at another server too, once without anybody there."""
    stores = [Counting(open_postgres(address, random=SystemRandom())) for _ in range(2)]
    with ExitStack() as ends:
        asking, other = (node_on(stores[n], speech, capacity) for n, capacity in enumerate((500, 0)))
        for node in (asking, other):
            ends.callback(node.stop)
        asyncio.run(told(asking, [asking], speech))
        unseen = Written(*map(sum, zip(*(vars(one.written).values() for one in stores), strict=True)))
        began = time.monotonic()
        here, there = asyncio.run(told(asking, [asking, other], speech))
        seconds = time.monotonic() - began
    print(f"nobody looks on at the other server: {unseen.commits} commits, {unseen.rows} rows to tell it")
    shown("postgres, read where the model is asked", here)
    middle = shown(f"postgres, read through the other server   (bar p50 {BAR_MS:g} ms)", there)
    for name, store in zip(("by the server that asks", "by the one where somebody looks on"), stores, strict=True):
        made = store.written
        print(
            f"written {name}, {speech.replies} replies at {speech.rate:g} pieces/s each: {made.commits / seconds:.1f} "
            f"commits/s, {made.rows / seconds:.1f} rows/s, {made.characters / seconds:.0f} characters/s"
        )
    return unseen.rows == 0 and middle <= BAR_MS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", default="", metavar="DSN", help="a database for it alone")
    parser.add_argument("--replies", type=int, default=5, help="at a time")
    parser.add_argument("--pieces", type=int, default=400, help="of each")
    parser.add_argument("--rate", type=float, default=20.0, help="pieces a second of each")
    parser.add_argument("--no-bar", action="store_true", help="only print")
    given = parser.parse_args()
    speech = Speech(given.replies, given.pieces, given.rate)
    if given.postgres:
        good = through_another(given.postgres, speech)
    else:
        with tempfile.TemporaryDirectory() as folder:
            store = open_sqlite(Path(folder) / "p.db", clock=SystemClock(), random=SystemRandom())
            good = alone(store, speech)
    return 0 if good or given.no_bar else 1


if __name__ == "__main__":
    raise SystemExit(main())
