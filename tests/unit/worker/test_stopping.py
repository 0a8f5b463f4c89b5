"""Stop: take no more, finish or hand back, then leave. Bounded, whatever the bodies do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from memory_tasks import Fault, MemoryTasks
from perdure.agent.context import ToolContext
from perdure.errors import Unreachable
from perdure.system import SystemClock
from perdure.testing.clock import FakeClock
from perdure.worker.loop import Worker
from working import make_worker

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[asyncio.Event]:
    """Run `worker`; the event is set when it has left."""
    left = asyncio.Event()

    async def run() -> None:
        await worker.run()
        left.set()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await worker.connected()
        yield left


def on_this_loop(source: MemoryTasks, clock: Any, *tools: Any, **options: Any) -> Worker:
    return make_worker(source, clock, *tools, tool_loop=asyncio.get_running_loop(), **options)


async def test_an_idle_worker_leaves_at_once() -> None:
    async def nothing() -> None: ...

    source = MemoryTasks(FakeClock())
    worker = on_this_loop(source, FakeClock(), nothing)
    async with running(worker) as left:
        worker.stop()
        await left.wait()
    assert worker.left_running == 0
    assert source.in_flight["lease"] == 0


async def test_a_worker_stopped_before_it_ran_takes_nothing() -> None:
    async def nothing() -> None: ...

    source = MemoryTasks(SystemClock())
    worker = on_this_loop(source, SystemClock(), nothing)
    worker.stop()
    await worker.run()
    assert source.sent("lease") == []


async def test_running_bodies_finish_and_are_told() -> None:
    source = MemoryTasks(SystemClock())
    started, go = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        started.set()
        await go.wait()
        return "finished"

    worker = on_this_loop(source, SystemClock(), work)
    async with running(worker) as left:
        address = source.add("work")
        await started.wait()
        worker.stop(60)
        await source.until(lambda: source.in_flight["lease"] == 0)
        other = source.add("work")
        go.set()
        await left.wait()
    assert source.outcomes(address) == ["completed"]
    assert source.rows[other].state == "ready"


async def test_after_the_drain_bodies_are_cancelled_and_go_back() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    worker = on_this_loop(source, clock, work, drain_seconds=10)
    async with running(worker) as left:
        address = source.add("work")
        await started.wait()
        worker.stop()
        await source.until(lambda: source.in_flight["lease"] == 0)
        await clock.asleep(2)
        clock.advance(9)
        await asyncio.sleep(0)
        assert not cancelled.is_set()
        while not left.is_set():
            clock.advance(1)
            await asyncio.sleep(0)
    assert cancelled.is_set()
    assert source.rows[address].state == "ready"
    assert source.rows[address].attempt == 0, "an attempt that its worker cut short does not count"
    assert worker.left_running == 0


async def test_a_claim_cut_short_is_told_and_does_not_go_back() -> None:
    source = MemoryTasks(SystemClock())
    started = asyncio.Event()

    async def pay() -> None:
        started.set()
        await asyncio.Event().wait()

    worker = on_this_loop(source, SystemClock(), pay)
    async with running(worker) as left:
        address = source.add("pay", delivery="at_most_once")
        await started.wait()
        worker.stop(0)
        await left.wait()
    assert source.sent("hand_back") == []
    assert source.rows[address].state == "uncertain"
    failure = source.rows[address].reports[0].failure
    assert failure is not None
    assert failure.message == "stopped because its worker stopped"


async def test_a_second_stop_does_not_wait() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    worker = on_this_loop(source, clock, work)
    async with running(worker) as left:
        address = source.add("work")
        await started.wait()
        worker.stop(3_600)
        await source.until(lambda: source.in_flight["lease"] == 0)
        worker.stop()
        await left.wait()
    assert source.rows[address].state == "ready"
    assert clock.monotonic_ms() == 0


async def test_what_never_began_goes_back_at_once() -> None:
    source = MemoryTasks(SystemClock())
    ran: list[int] = []

    async def work() -> None:
        ran.append(1)

    gate = asyncio.Event()
    source.faults["lease"] = [Fault(hang=gate)]
    worker = on_this_loop(source, SystemClock(), work)
    async with running(worker) as left:
        await source.until(lambda: source.in_flight["lease"] == 1)
        address = source.add("work")
        source.close_link()
        await source.until(lambda: len(source.sent("alive")) == 2)
        gate.set()  # a task arrives, and nothing starts while the connection is closed
        await source.until(lambda: source.rows[address].state == "leased" and not source.in_flight["lease"])
        worker.stop(60)
        await left.wait()
    assert ran == []
    assert (source.rows[address].state, source.rows[address].attempt) == ("ready", 0)


async def test_tasks_of_a_poll_that_stopping_cut_off_go_back() -> None:
    async def nothing() -> None: ...

    source = MemoryTasks(SystemClock())
    hang = asyncio.Event()
    source.faults["lease"] = [Fault(Unreachable("lost"), after=True), Fault(hang=hang)]
    address = source.add("nothing")
    worker = on_this_loop(source, SystemClock(), nothing)
    async with running(worker) as left:
        await source.until(lambda: len(source.sent("lease")) == 2 and source.in_flight["lease"] == 1)
        assert source.rows[address].state == "leased", "and the worker does not know"
        worker.stop()
        await left.wait()
    assert len({request.nonce for request in source.sent("lease")}) == 1
    assert source.rows[address].state == "ready"


async def test_a_thread_that_cannot_be_stopped_is_counted_and_its_task_goes_back() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    started, go = threading.Event(), threading.Event()

    def deaf() -> None:
        started.set()
        go.wait()

    def pay() -> None:
        go.wait()

    worker = make_worker(source, clock, deaf, pay)
    try:
        async with running(worker) as left:
            address = source.add("deaf")
            claim = source.add("pay", delivery="at_most_once")
            await asyncio.to_thread(started.wait)
            await source.until(lambda: source.rows[claim].state == "begun")
            worker.stop(0)
            while not left.is_set():
                clock.advance(0.5)
                await asyncio.sleep(0)
        assert worker.left_running == 2
        assert source.rows[address].state == "ready"
        assert source.rows[claim].state == "begun", "nothing is said of a body whose end was not seen"
        assert clock.monotonic_ms() < 20_000
    finally:
        go.set()


async def test_a_thread_that_asks_leaves_with_its_worker() -> None:
    source = MemoryTasks(SystemClock())
    started = threading.Event()

    def polite(ctx: ToolContext) -> None:
        started.set()
        while True:
            ctx.heartbeat()

    worker = make_worker(source, SystemClock(), polite)
    async with running(worker) as left:
        address = source.add("polite")
        await asyncio.to_thread(started.wait)
        worker.stop(0)
        await left.wait()
    assert worker.left_running == 0
    assert source.rows[address].state == "ready"


async def test_stopping_is_bounded_when_nobody_answers() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    source.faults["report"] = [Fault(Unreachable("gone"))] * 1_000
    source.faults["begin"] = [Fault(Unreachable("gone"))] * 1_000

    async def work() -> str:
        return "cannot be delivered"

    worker = on_this_loop(source, clock, work)
    async with running(worker) as left:
        source.add("work")
        source.add("work", delivery="at_most_once")
        await source.until(lambda: len(source.sent("report")) > 0 and len(source.sent("begin")) > 0)
        source.faults["hand_back"] = [Fault(hang=asyncio.Event())] * 10
        worker.stop()
        while not left.is_set():
            clock.advance(0.5)
            await asyncio.sleep(0)
    assert clock.monotonic_ms() <= 40_000


async def test_cancelling_the_worker_cancels_bodies() -> None:
    source = MemoryTasks(SystemClock())
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    worker = on_this_loop(source, SystemClock(), work)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        source.add("work")
        await started.wait()
        group.cancel_scope.cancel()
    await cancelled.wait()
    assert source.sent("report") == []
