"""The worker routes as connections: leases that wait, clients that vanish, signs of life."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from http_server import Server, serving, start_request
from perdure.client.http import HttpTaskSource
from perdure.client.tasks import SILENCE_SECONDS
from perdure.core.work import ORPHAN_LEASE_MS, Answer, Begin, Held, Lane, LeasedTask, LeaseRequest, Report, WorkerInfo
from perdure.errors import Retryable
from perdure.server.options import Limits, ServeOptions
from perdure.server.tasks import SIGN_SECONDS
from perdure.wire import codec, routes
from perdure.wire.bodies import LeaseBody, ReportBody
from raw_http import Reply, connected, exchange, read_reply, request

pytestmark = pytest.mark.anyio

LANES = (Lane("tester", "work"),)
PATIENCE = 60.0
"""Seconds until a wait fails the test. No measure: a loaded machine takes its time."""
LONG = ServeOptions(drain_seconds=3_600)
"""So that nothing ends because a server that leaves has lost its patience."""


@pytest.fixture
def nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a lease that waits look at its queue only when it is told to."""
    monkeypatch.setattr("perdure.server.tasks.POLL_SECONDS", 3_600)


def wish(worker: str, nonce: str = "n1", *, lease_ms: int = 30_000) -> LeaseRequest:
    return LeaseRequest(worker, nonce, LANES, slots=4, lease_ms=lease_ms)


def ask_lease(server: Server, worker: str, wait_seconds: float) -> bytes:
    body = codec.dump(LeaseBody(wish(worker), wait_seconds))
    return request("POST", routes.LEASE, server.address, key=server.key, body=body)


@asynccontextmanager
async def waiting(server: Server, worker: str) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Hold a connection on which a lease waits."""
    async with connected(server.address) as (reader, writer):
        writer.write(ask_lease(server, worker, PATIENCE))
        await until_waiting(server, 1)
        yield reader, writer


async def until_waiting(server: Server, leases: int) -> None:
    """Return once so many leases wait at the server. Nothing that a client can ask tells it."""
    async with asyncio.timeout(PATIENCE):
        while _waiting(server) != leases:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)


def _waiting(server: Server) -> int:
    return len(server.node.hub._listeners.get(("tasks", "default/default"), ()))


@pytest.mark.usefixtures("nobody_looks")
async def test_a_waiting_lease_gets_the_task_as_soon_as_it_is_there(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server, waiting(server, "w1") as (reader, _):
        await server.api().start(start_request("tool"))
        async with asyncio.timeout(PATIENCE / 2):  # less than it was to wait
            reply = await read_reply(reader)
        assert [task["tool"] for task in reply.json["tasks"]] == ["work"]


async def test_who_hung_up_gets_no_task(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        async with waiting(server, "w1"):
            pass
        await until_waiting(server, 0)
        await server.api().start(start_request("tool"))
        (task,) = await server.tasks().lease(wish("w3"), wait_seconds=PATIENCE)
        assert task.attempt == 1


async def test_a_lease_without_tasks_ends_when_it_said(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        assert await server.tasks().lease(wish("w1"), wait_seconds=0.05) == []


@pytest.mark.usefixtures("nobody_looks")
async def test_a_server_that_leaves_lets_waiting_leases_go(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db", LONG) as server, waiting(server, "w1") as (reader, _):
        server.stop.set()
        async with asyncio.timeout(PATIENCE / 2):  # less than it was to wait
            reply = await read_reply(reader)
        assert (reply.status, reply.code) in ((503, "draining"), (200, ""))


async def test_waiting_leases_have_a_bound(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db", ServeOptions(limits=Limits(polls=1))) as server, waiting(server, "w1"):
        source = HttpTaskSource(server.url, server.key)
        with pytest.raises(Retryable) as caught:
            await source.lease(wish("w2"), wait_seconds=1)
        assert caught.value.code == "busy"
        await source.aclose()


async def leased(server: Server, worker: str, *, lease_ms: int = 30_000) -> LeasedTask:
    await server.api().start(start_request("tool"))
    (task,) = await server.tasks().lease(wish(worker, lease_ms=lease_ms), wait_seconds=PATIENCE)
    return task


async def test_a_worker_whose_connection_closes_keeps_its_tasks_only_shortly(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        signs = server.tasks().alive(WorkerInfo("w1", "w", LANES, 4))
        await anext(signs)
        task = await leased(server, "w1", lease_ms=3_600_000)
        await signs.aclose()
        found = await server.tasks().lease(wish("w2"), wait_seconds=PATIENCE)
        assert [(one.address, one.attempt) for one in found] == [(task.address, 2)]
        assert found[0].fence > task.fence
        late = Report(task.execution, task.address, task.fence, "completed", "late")
        assert await server.tasks().report("w1", [late]) == [Answer.LEASE_LOST]


async def test_a_heartbeat_undoes_what_a_lost_connection_did(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        signs = server.tasks().alive(WorkerInfo("w1", "w", LANES, 4))
        await anext(signs)
        task = await leased(server, "w1")
        await signs.aclose()
        await until_gone(server)
        held = [Held(task.execution, task.address, task.fence)]
        assert await server.tasks().beat("w1", held) == [Answer.ACCEPTED]
        assert await server.tasks().lease(wish("w2"), wait_seconds=ORPHAN_LEASE_MS / 1000 + 1) == []


async def until_gone(server: Server) -> None:
    async with asyncio.timeout(PATIENCE):
        while await server.node.api("default").workers():  # noqa: ASYNC110 - only the socket tells
            await asyncio.sleep(0.01)


async def test_signs_of_life_come_while_the_connection_is_open(tmp_path: Path) -> None:
    assert 2 * SIGN_SECONDS < SILENCE_SECONDS, "a worker that hears nothing for so long gives the connection up"
    async with serving(tmp_path / "s.db") as server:
        signs = server.tasks().alive(WorkerInfo("w1", "w", LANES, 4))
        async with asyncio.timeout(PATIENCE):
            await anext(signs)
            await anext(signs)
        await signs.aclose()


async def test_signs_of_life_end_when_the_server_leaves_and_cost_no_lease(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db", LONG) as server:
        signs = server.tasks().alive(WorkerInfo("w1", "w", LANES, 4))
        await anext(signs)
        task = await leased(server, "w1", lease_ms=3_600_000)
        server.stop.set()
        async with asyncio.timeout(PATIENCE):
            assert [sign async for sign in signs] == []
        left = await lease_left_ms(server, task)
        assert left > ORPHAN_LEASE_MS * 2


async def lease_left_ms(server: Server, task: LeasedTask) -> int:
    """Return how long a task is still reserved, from the store itself."""
    from perdure.core.ids import shard_of

    row = await server.node.bridge.read(
        lambda reads: reads.row("task", shard=shard_of(task.execution), execution=task.execution, address=task.address)
    )
    assert row is not None
    return int(row["lease_until_ms"]) - server.node.parts.clock.wall_ms()


async def test_resending_anything_is_safe(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        task = await leased(server, "w1")
        body = codec.dump(ReportBody("w1", (Report(task.execution, task.address, task.fence, "completed", {"n": 1}),)))
        replies: list[Reply] = [
            await exchange(server.address, request("POST", routes.REPORT, server.address, key=server.key, body=body))
            for _ in range(3)
        ]
        answers = [reply.json["answers"] for reply in replies]
        assert answers == [["accepted"], ["already_accepted"], ["already_accepted"]]


async def test_a_worker_of_another_company_can_do_nothing_with_a_task(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        key = "pdk_" + "o" * 43
        await server.node.add_key("acme", "eve", key)
        task = await leased(server, "w1")
        held = [Held(task.execution, task.address, task.fence)]
        eve = HttpTaskSource(server.url, key)
        assert await eve.lease(wish("w2"), wait_seconds=0) == []
        assert await eve.begin(Begin(task.execution, task.address, task.fence, "b")) is Answer.LEASE_LOST
        assert await eve.beat("w1", held) == [Answer.LEASE_LOST]
        assert await eve.hand_back("w1", held) == [Answer.LEASE_LOST]
        forged = Report(task.execution, task.address, task.fence, "completed", "forged")
        assert await eve.report("w1", [forged]) == [Answer.LEASE_LOST]
        await eve.aclose()
        assert await server.tasks().beat("w1", held) == [Answer.ACCEPTED]
