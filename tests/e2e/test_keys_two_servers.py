"""Keys over two servers of one database, each with a worker, over HTTP: the limit of a key is one for both."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from http_server import SCRIPTS, Server, serving_node, start_request
from perdure.core.queues import QueueLimits
from perdure.core.work import Lane, LeasedTask, LeaseRequest, Report
from perdure.models.catalog import Catalog
from perdure.server.node import Node, Parts
from perdure.store.postgres import open_postgres
from perdure.system import SystemClock, SystemRandom

pytestmark = pytest.mark.anyio

LANES = (Lane("tester", "work"),)
PATIENCE = 60.0
"""Seconds until a wait fails the test. No measure: a loaded machine takes its time."""


@asynccontextmanager
async def server_on(database: str) -> AsyncGenerator[Server]:
    """Run one more server on a database."""
    clock, random = SystemClock(), SystemRandom()
    store = open_postgres(database, random=random)
    node = Node(store, Parts(Catalog(scripted=SCRIPTS), clock, random), nonce=random.token(16).hex())
    node.start()
    async with serving_node(node) as server:
        yield server


class Workers:
    """Workers at several servers, who count what they have under way together."""

    def __init__(self, keys: dict[str, str]) -> None:
        self._keys = keys
        self._now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        """By key: tasks under way at once."""
        self.given: list[str] = []
        """Whose tasks they were given, in order."""
        self._done = 0

    async def work(self, server: Server, name: str) -> None:
        """Take what is given at one server and hold it for some turns of the loop, until all is done."""
        tasks = server.tasks()
        for n in range(1_000):
            if self._done == len(self._keys):
                return
            request = LeaseRequest(name, f"{name} {n}", LANES, 3)
            await asyncio.gather(
                *(self._run(server, name, task) for task in await tasks.lease(request, wait_seconds=1.0))
            )

    async def _run(self, server: Server, name: str, task: LeasedTask) -> None:
        key = self._keys[task.execution]
        self.given.append(key)
        self._now[key] += 1
        self.most[key] = max(self.most[key], self._now[key])
        await server.api().queue("default")  # takes a moment, in which the others ask
        self._now[key] -= 1
        self._done += 1
        report = Report(task.execution, task.address, task.fence, "completed", "ok", None)
        assert await server.tasks().report(name, [report]) == ["accepted"]


async def test_a_key_has_one_limit_at_all_servers_and_keeps_no_other_waiting(postgres_database: str) -> None:
    async with AsyncExitStack() as both, asyncio.timeout(PATIENCE):
        servers = [await both.enter_async_context(server_on(postgres_database)) for _ in range(2)]
        api = servers[0].api()
        made = await api.set_queue("default", QueueLimits(per_key=1))
        keys: dict[str, str] = {}
        for key in ("ann", "ann", "ann", "ann", "bob", "carl"):
            started = await servers[len(keys) % 2].api().start(replace(start_request("tool"), limit_key=key))
            keys[started.id] = key
        while (await api.queue("default")).backlog < len(keys):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # a server's state, which nothing announces
        assert made.per_key == (await servers[1].api().queue("default")).per_key == 1
        workers = Workers(keys)
        await asyncio.gather(*(workers.work(server, f"wrk_{n}") for n, server in enumerate(servers)))
        for execution in keys:
            await api.wait(execution)
    assert workers.most == {"ann": 1, "bob": 1, "carl": 1}
    assert sorted(workers.given[:3]) == ["ann", "bob", "carl"], "who came later waited for none of the others' tasks"
