"""Kill -9 a worker that runs durable functions: its death is proved, and what it held is another's at once.

The server runs here, by a clock that the test moves, and never as far as a lease that was only cut short would last.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cli_processes import PATIENCE, Home, Running
from http_server import Server, serving_node
from perdure.core.functions import function_spec
from perdure.core.views import StartRequest
from perdure.core.work import ORPHAN_LEASE_MS, FunctionLane
from perdure.models.catalog import Catalog
from perdure.server.node import Node, Parts
from perdure.testing.clock import FakeClock, SeededRandom
from which_store import own_store

pytestmark = pytest.mark.anyio

WHO = ["ann", "bob", "cid"]


@asynccontextmanager
async def serving(folder: Path, clock: FakeClock) -> AsyncIterator[Server]:
    store, close = own_store(folder / "p.db", clock=clock, random=SeededRandom(1))
    node = Node(store, Parts(Catalog(), clock, SeededRandom(2)), close=close)
    node.start()
    async with serving_node(node) as server:
        yield server


async def until(fact: Callable[[], object], meanwhile: Callable[[], object] = lambda: None) -> None:
    async with asyncio.timeout(PATIENCE):
        while not fact():
            meanwhile()
            await asyncio.sleep(0.01)


@pytest.mark.both_stores
async def test_what_a_killed_worker_ran_is_taken_before_any_lease_could_end(tmp_path: Path) -> None:
    clock, home = FakeClock(), Home(tmp_path)
    async with serving(tmp_path, clock) as server:
        home.extra = {"PERDURE_API_KEY": server.key, "CRASH_FOLDER": str(tmp_path)}
        (tmp_path / "hold").touch()
        try:
            api = server.node.api("default")
            holder = await work(home, server)
            ids = [(await api.start(StartRequest(function_spec(FunctionLane("held", "b1")), who))).id for who in WHO]
            await until(lambda: begun(tmp_path, holder) == WHO)
            other = await work(home, server)
            assert begun(tmp_path, other) == []
            killed_ms = clock.wall_ms()
            holder.end(signal.SIGKILL)
            await until_gone(server, holder)

            def passes() -> None:
                if clock.wall_ms() - killed_ms < ORPHAN_LEASE_MS - 100:
                    clock.advance(0.01)

            await until(lambda: begun(tmp_path, other) == WHO, passes)
            (tmp_path / "hold").unlink()
            for execution in ids:
                await api.wait(execution)
                events = await api.events(execution)
                (taken,) = [event for event in events if event.kind == "taken_over"]
                assert taken.at_ms < killed_ms + ORPHAN_LEASE_MS
                assert events[-1].kind == "completed"
        finally:
            await asyncio.to_thread(home.close)


async def work(home: Home, server: Server) -> Running:
    """Start a worker; its leases last longer than a test."""
    return await asyncio.to_thread(
        home.work, "durable_home:held", "--server", server.url, "--lease-ms", "60000", "--slots", "8"
    )


async def until_gone(server: Server, worker: Running) -> None:
    """Return once the server saw the worker's connection close."""
    api, known = server.node.api("default"), {worker.ready["worker"]}
    async with asyncio.timeout(PATIENCE):
        while known & {info.worker for info in await api.workers()}:  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.01)


def begun(folder: Path, worker: Running) -> list[str]:
    """Return whose steps a worker has begun."""
    path = folder / "acts"
    acts = path.read_text().split() if path.exists() else []
    return sorted(who for who, _, pid in (act.partition(":") for act in acts) if pid == str(worker.process.pid))
