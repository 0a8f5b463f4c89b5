"""Queues over a real socket mean what they mean in-process, and who waits for a task hears when there is room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path

import pytest

from http_server import Server, serving, start_request
from perdure.core.queues import DeadFilter, QueueLimits, QueueView
from perdure.core.work import SERVER_QUEUE, Failure, Lane, LeasedTask, LeaseRequest, Report
from perdure.errors import PerdureError
from perdure.wire import routes
from raw_http import exchange, request

pytestmark = pytest.mark.anyio

LANES = (Lane("tester", "work"),)
PATIENCE = 60.0
"""Seconds until a wait fails the test. No measure: a loaded machine takes its time."""


@pytest.fixture
def nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a lease that waits look at its queue only when it is told to."""
    monkeypatch.setattr("perdure.server.tasks.POLL_SECONDS", 3_600)


async def lease(server: Server, worker: str, slots: int = 1) -> list[LeasedTask]:
    """Wait for tasks as a worker does."""
    async with asyncio.timeout(PATIENCE / 2):
        return await server.tasks().lease(LeaseRequest(worker, f"n {worker}", LANES, slots), wait_seconds=PATIENCE)


@asynccontextmanager
async def waiting(server: Server, worker: str) -> AsyncGenerator[asyncio.Task[list[LeasedTask]]]:
    """Have a worker wait for a task at the server."""
    wish = asyncio.create_task(lease(server, worker))
    await until(lambda: _listening(server))
    try:
        yield wish
    finally:
        wish.cancel()
        await asyncio.wait((wish,))


async def begun(server: Server, count: int) -> list[str]:
    """Begin executions, each with a task for a worker, and return them when the tasks are there."""
    ids = [(await server.api().start(start_request("tool"))).id for _ in range(count)]
    await until(lambda: _backlog(server, count))
    return ids


async def _listening(server: Server) -> bool:
    return bool(server.node.hub._listeners.get(("tasks", "default/default")))  # nothing that a client can ask tells it


async def _backlog(server: Server, count: int) -> bool:
    return (await server.api().queue("default")).backlog >= count


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    """Return once it is so."""
    async with asyncio.timeout(PATIENCE):
        while not await look():  # noqa: ASYNC110 - a server's state, which nothing announces
            await asyncio.sleep(0.01)


async def test_a_queue_is_set_shown_paused_and_resumed(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api, direct = server.api(), server.node.api("default")
        assert await api.queues() == []
        assert await api.queue("mail") == QueueView("mail", False, None, None, None, 0, 0, None)
        made = await api.set_queue("mail", QueueLimits(5, 100, 60), by="eve")
        assert (made.concurrency, made.rate, made.per_seconds, made.changed_by) == (5, 100, 60.0, "eve")
        assert (await direct.set_queue("mail", QueueLimits(5, 100, 60))) == made, "the same again changes nothing"
        assert (await api.pause_queue("mail", by="eve")).paused
        assert [one.name for one in await api.queues()] == ["mail"]
        assert await api.queues() == await direct.queues()
        assert not (await api.resume_queue("mail")).paused
        assert (await api.set_queue("mail", QueueLimits(per_key=2))).per_key == 2
        lifted = await api.set_queue("mail", QueueLimits(rate=3))
        assert (lifted.concurrency, lifted.rate, lifted.per_seconds, lifted.per_key) == (None, 3, 1.0, None)
        assert (await api.pause_queue(SERVER_QUEUE)).paused


WRONG: list[tuple[str, QueueLimits, str]] = [
    (
        "mail",
        QueueLimits(concurrency=0),
        "concurrency should be 1 to 1,000,000, or nothing for no limit; found 0; to give",
    ),
    ("mail", QueueLimits(concurrency=-3), "concurrency should be 1 to 1,000,000, or nothing for no limit; found -3."),
    ("mail", QueueLimits(rate=2_000_000), "rate should be 1 to 1,000,000, or nothing for no limit; found 2000000."),
    ("mail", QueueLimits(rate=1, per_seconds=0.0), "per_seconds should be 0.001 to 2678400 (31 days); found 0."),
    ("mail", QueueLimits(per_key=0), "per_key should be 1 to 1,000,000, or nothing for no limit; found 0"),
    ("mail", QueueLimits(per_seconds=5.0), "per_seconds is 5 and there is no rate; say how many"),
    ("ma il", QueueLimits(1), "a queue's name is 1 to 64 letters, digits, `_`, `.`, `:` and `-`, or ?server"),
]


async def test_what_is_refused_is_refused_the_same_way_on_both_and_named(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        for api, (name, limits, what) in product((server.api(), server.node.api("default")), WRONG):
            with pytest.raises(PerdureError) as refused:
                await api.set_queue(name, limits)
            assert refused.value.code == "bad_queue"
            assert what in refused.value.message
        assert await server.api().queues() == []


@pytest.mark.usefixtures("nobody_looks")
async def test_who_waits_gets_a_task_when_another_one_ends(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await server.api().set_queue("default", QueueLimits(concurrency=1))
        await begun(server, 2)
        [first] = await lease(server, "w1", slots=2)
        async with waiting(server, "w2") as wish:
            report = Report(first.execution, first.address, first.fence, "completed", "ok", None)
            assert await server.tasks().report("w1", [report]) == ["accepted"]
            assert [task.tool for task in await wish] == ["work"]


@pytest.mark.usefixtures("nobody_looks")
async def test_who_waits_gets_a_task_when_the_rate_gives_again(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await server.api().set_queue("default", QueueLimits(rate=1, per_seconds=0.5))
        await begun(server, 2)
        [first] = await lease(server, "w1", slots=2)
        [second] = await lease(server, "w2", slots=2)
        assert first.execution != second.execution


@pytest.mark.usefixtures("nobody_looks")
async def test_who_waits_gets_a_task_when_the_queue_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await server.api().pause_queue("default")
        await begun(server, 1)
        async with waiting(server, "w1") as wish:
            await server.api().resume_queue("default")
            assert len(await wish) == 1


async def test_what_failed_for_good_is_listed_the_same_way_on_both(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        ids = await begun(server, 3)
        tasks = await lease(server, "w1", slots=3)
        for execution in ids:
            await server.api().pause(execution)  # so that none goes on, and ends
        failure = Failure("boom", "it broke", permanent=True)
        reports = [Report(one.execution, one.address, one.fence, "failed", None, failure) for one in tasks]
        await server.tasks().report("w1", reports)
        for api in (server.api(), server.node.api("default")):
            with pytest.raises(PerdureError, match="none that a page gave"):
                await api.dead_tasks(DeadFilter(), cursor="x")
            assert (await api.dead_tasks(DeadFilter(queue="mail"))).items == ()
            first = await api.dead_tasks(DeadFilter(agent="tester"), limit=2)
            second = await api.dead_tasks(DeadFilter(agent="tester"), cursor=first.cursor, limit=2)
            assert sorted(one.execution for one in (*first.items, *second.items)) == sorted(ids)
            assert {one.error for one in first.items} == {"it broke"}
            assert second.cursor is None


@pytest.mark.both_stores
async def test_how_many_tasks_each_worker_has_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await begun(server, 4)
        for worker, slots in (("wrk_a", 2), ("wrk_b", 1)):
            assert len(await lease(server, worker, slots)) == slots
        asked = request("GET", routes.WORKERS_HELD, server.address, key=server.key)
        found = (await exchange(server.address, asked)).json["items"]
        assert found == [{"worker": "wrk_a", "held": 2}, {"worker": "wrk_b", "held": 1}]
