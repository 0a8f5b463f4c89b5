"""The worker over the real sources, in-process and HTTP, on a real store: what the mechanics come to."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from http_server import Server, process, serving, spec, start_request
from perdure.agent.context import ToolContext
from perdure.agent.tool import definition_of
from perdure.client.http import HttpApi, HttpTaskSource
from perdure.core.events import Event, Kind
from perdure.core.views import StartRequest
from perdure.core.work import Lane
from perdure.wire.api import Api, TaskSource
from perdure.wire.strict import MAX_CONTAINERS
from perdure.worker.loop import Worker, WorkerOptions
from working import at_work

pytestmark = pytest.mark.anyio

LEASE_MS = 2_000
"""Short, because it is waited for, and long enough for a loaded machine not to lose one that is kept."""
PATIENCE = 60.0


@pytest.fixture(params=["direct", "http"])
def source_of(request: pytest.FixtureRequest) -> Callable[[Server], TaskSource]:
    """How a worker gets its tasks."""
    if request.param == "http":
        return lambda server: server.tasks()
    return lambda server: server.node.tasks("default")


def worker_of(source: TaskSource, *tools: Callable[..., Any], **options: Any) -> Worker:
    definitions = [definition_of(tool) for tool in tools]
    return Worker(source, {Lane("tester", one.name): one for one in definitions}, WorkerOptions(**options))


async def log_of(api: Api, execution: str) -> list[Event]:
    """Return the whole log, once the execution has ended."""
    async with asyncio.timeout(PATIENCE):
        return [event async for event in api.follow(execution)]


async def until(api: Api, execution: str, kind: Kind) -> Event:
    """Return the first event of a kind."""
    async with asyncio.timeout(PATIENCE):
        async for event in api.follow(execution):
            if event.kind is kind:
                return event
    raise AssertionError(f"it ended without {kind}")


def of_tool(name: str, script: str, **change: Any) -> StartRequest:
    """Return a start whose tool has other options than the script's own."""
    changed: Any = spec(script)
    for tool in changed["tools"]:
        if tool["name"] == name:
            tool.update(change)
    return replace(start_request(script), spec=changed)


async def test_an_execution_is_carried_to_its_end(tmp_path: Path, source_of: Any) -> None:
    def work(n: int, ctx: ToolContext) -> dict[str, Any]:
        return {"n": n, "key": ctx.idempotency_key}

    async with serving(tmp_path / "s.db") as server, at_work(worker_of(source_of(server), work)) as worker:
        api = server.api()
        started = await api.start(start_request("tool"))
        log = await log_of(api, started.id)
        (task,) = await api.tasks(started.id)
        assert log[-1].kind is Kind.COMPLETED
        assert task.value == {"n": 1, "key": task.key}
        assert (task.attempt, task.worker) == (1, worker.id)
        assert [info.worker for info in await api.workers()] == [worker.id]


async def test_an_act_is_claimed_once(tmp_path: Path, source_of: Any) -> None:
    async def fire(n: int) -> str:
        return f"fired {n}"

    async with serving(tmp_path / "s.db") as server, at_work(worker_of(source_of(server), fire)):
        api = server.api()
        started = await api.start(start_request("once"))
        log = await log_of(api, started.id)
        (effect,) = await api.effects(execution=started.id)
    kinds = [event.kind for event in log]
    assert kinds.index(Kind.TASK_BEGUN) < kinds.index(Kind.TASK_COMPLETED)
    assert (effect.claims, effect.state, effect.value) == (1, "done", "fired 1")


async def test_a_raising_tool_is_tried_three_times(tmp_path: Path, source_of: Any) -> None:
    tries: list[int] = []

    def work(n: int, ctx: ToolContext) -> None:
        tries.append(ctx.attempt)
        raise RuntimeError(f"try {ctx.attempt}")

    async with serving(tmp_path / "s.db") as server, at_work(worker_of(source_of(server), work)):
        api = server.api()
        started = await api.start(of_tool("work", "tool", pause_ms=10))
        log = await log_of(api, started.id)
    assert tries == [1, 2, 3]
    (failed,) = [event for event in log if event.kind is Kind.TASK_FAILED]
    assert failed.data["error"] == "RuntimeError: try 3"
    assert log[-1].kind is Kind.COMPLETED, "the model is told, and the run goes on"


async def test_what_acted_and_gave_what_the_server_does_not_read_is_in_doubt(tmp_path: Path) -> None:
    """Half a million lists are 2 MB of text, and more than the server reads in one request."""
    ran: list[int] = []

    def work(n: int) -> list[list[int]]:
        ran.append(n)
        return [[]] * (MAX_CONTAINERS + 1)

    async with serving(tmp_path / "s.db") as server, at_work(worker_of(server.tasks(), work)):
        api = server.api()
        started = await api.start(of_tool("work", "tool", delivery="at_least_once"))
        told = await until(api, started.id, Kind.TASK_UNCERTAIN)
    assert "the result could not be stored" in told.data["why"]
    assert ran == [1]


async def test_a_cancel_reaches_the_running_tool(tmp_path: Path, source_of: Any) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def work(n: int) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with serving(tmp_path / "s.db") as server:
        worker = worker_of(source_of(server), work, tool_loop=asyncio.get_running_loop(), lease_ms=LEASE_MS)
        async with at_work(worker):
            api = server.api()
            execution = (await api.start(start_request("tool"))).id
            await started.wait()
            await api.cancel(execution, by="test")
            log = await log_of(api, execution)
    assert cancelled.is_set()
    assert log[-1].kind is Kind.CANCELLED


async def test_a_lease_outlives_a_tool_that_blocks_everything_it_can(tmp_path: Path, source_of: Any) -> None:
    async def work(n: int) -> str:
        until = time.monotonic() + 3 * LEASE_MS / 1000
        while time.monotonic() < until:  # pure Python, no await: its loop stands still for three leases
            sum(range(1_000))
        return "spun"

    async with serving(tmp_path / "s.db") as server, at_work(worker_of(source_of(server), work, lease_ms=LEASE_MS)):
        api = server.api()
        started = await api.start(of_tool("work", "tool", attempts=1))
        log = await log_of(api, started.id)
        (task,) = await api.tasks(started.id)
    assert Kind.ATTEMPT_LOST not in [event.kind for event in log]
    assert task.attempt == 1


async def test_a_stopped_worker_hands_its_task_to_the_next(tmp_path: Path, source_of: Any) -> None:
    async with serving(tmp_path / "s.db") as server:
        started = asyncio.Event()

        async def work(n: int) -> None:
            started.set()
            await asyncio.Event().wait()

        api = server.api()
        async with at_work(worker_of(source_of(server), work, tool_loop=asyncio.get_running_loop())):
            execution = (await api.start(start_request("tool"))).id
            await started.wait()

        def again(n: int) -> str:
            return "by the next"

        again.__name__ = "work"
        async with at_work(worker_of(source_of(server), again)):
            await log_of(api, execution)
            (task,) = await api.tasks(execution)
    assert (task.value, task.attempt) == ("by the next", 1)


@asynccontextmanager
async def http_clients(url: str, key: str) -> AsyncIterator[tuple[HttpApi, HttpTaskSource]]:
    api, source = HttpApi(url, key), HttpTaskSource(url, key)
    try:
        yield api, source
    finally:
        await api.aclose()
        await source.aclose()


async def test_a_result_survives_the_death_of_the_server(tmp_path: Path) -> None:
    running, go = threading.Event(), threading.Event()
    runs: list[int] = []

    def fire(n: int) -> str:
        runs.append(n)
        running.set()
        go.wait()
        return "done while nobody listened"

    with process(tmp_path / "s.db") as first:
        _, port = first.address
        async with http_clients(first.url, first.key) as (api, source), at_work(worker_of(source, fire), go):
            execution = (await api.start(start_request("once"))).id
            await asyncio.to_thread(running.wait)
            first.popen.kill()
            first.popen.wait()
            go.set()
            with process(tmp_path / "s.db", f"port={port}"):
                log = await log_of(api, execution)
                (effect,) = await api.effects(execution=execution)
    assert log[-1].kind is Kind.COMPLETED
    assert runs == [1]
    assert (effect.claims, effect.value) == (1, "done while nobody listened")


async def test_a_late_finisher_is_refused(tmp_path: Path) -> None:
    gate = tmp_path / "go"
    program = Path(__file__).parents[2] / "support" / "worker_program.py"
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        execution = (await api.start(start_request("tool"))).id
        command = [sys.executable, str(program), "http", server.url, server.key, str(gate), str(LEASE_MS)]
        late = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
        try:
            assert late.stdout is not None
            assert await late.stdout.readline() == b"started\n"
            late.send_signal(signal.SIGSTOP)
            await until(api, execution, Kind.ATTEMPT_LOST)

            def work(n: int) -> str:
                return "by the next"

            async with at_work(worker_of(server.tasks(), work)):
                await log_of(api, execution)
            gate.touch()
            late.send_signal(signal.SIGCONT)
            assert await late.stdout.readline() == b"finished\n"
            late.send_signal(signal.SIGTERM)
            _, told = await late.communicate()
        finally:
            if late.returncode is None:
                late.kill()
                await late.wait()
        (task,) = await api.tasks(execution)
    assert (task.value, task.attempt) == ("by the next", 2)
    assert b"worker.result_refused" in told


async def test_a_tool_that_kills_its_worker_is_tried_as_often_as_allowed_and_no_more(tmp_path: Path) -> None:
    program = Path(__file__).parents[2] / "support" / "worker_program.py"
    starts = 0
    async with serving(tmp_path / "s.db") as server:
        api = server.api()
        execution = (await api.start(of_tool("work", "tool", attempts=2, pause_ms=10))).id
        log = asyncio.create_task(log_of(api, execution))
        while not log.done() and starts < 6:
            command = [sys.executable, str(program), "http", server.url, server.key, "kill", str(LEASE_MS)]
            worker = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=DEVNULL)
            assert worker.stdout is not None
            told = asyncio.create_task(worker.stdout.read())
            await asyncio.wait({log, told}, return_when=asyncio.FIRST_COMPLETED)
            if worker.returncode is None and log.done():
                worker.kill()
            starts += b"started" in await told
            await worker.wait()
        kinds = [event.kind for event in await log]
        (task,) = await api.tasks(execution)
    assert starts == 2
    assert (task.state, task.attempt) == ("dead", 2)
    assert kinds[-1] is Kind.COMPLETED, "the model is told, and the run goes on"
