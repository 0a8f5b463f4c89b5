"""An attempt that runs out of time: stopped if it can be stopped, and never in silence."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from memory_tasks import MemoryTasks
from perdure.agent.context import ToolContext
from perdure.system import SystemClock
from perdure.testing.clock import FakeClock
from working import at_work, make_worker

pytestmark = pytest.mark.anyio

TIMEOUT = 5_000


async def pass_time(clock: FakeClock, seconds: int) -> None:
    for _ in range(seconds):
        await clock.asleep(1)
        clock.advance(1)
        for _ in range(20):
            await asyncio.sleep(0)


async def test_an_async_body_is_cancelled_and_the_attempt_failed() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    started, cleaned = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    async with at_work(make_worker(source, clock, slow, tool_loop=asyncio.get_running_loop())):
        address = source.add("slow", timeout_ms=TIMEOUT)
        await started.wait()
        await pass_time(clock, 4)
        assert not cleaned.is_set()
        await pass_time(clock, 2)
        await source.reported(address)
    assert cleaned.is_set()
    failure = source.rows[address].reports[0].failure
    assert failure is not None
    assert (failure.code, failure.message) == ("timeout", "tool slow took longer than its 5 s")
    assert not failure.permanent


async def test_a_body_in_time_is_not_disturbed() -> None:
    source = MemoryTasks(SystemClock())

    def quick() -> str:
        return "in time"

    async with at_work(make_worker(source, SystemClock(), quick)):
        address = source.add("quick", timeout_ms=TIMEOUT)
        await source.reported(address)
    assert source.rows[address].reports[0].value == "in time"


async def test_a_thread_is_told_and_may_stop_by_itself() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    running = threading.Event()

    def polite(ctx: ToolContext) -> None:
        running.set()
        while True:
            ctx.heartbeat()
            time.sleep(0.001)

    async with at_work(make_worker(source, clock, polite)):
        address = source.add("polite", timeout_ms=TIMEOUT)
        await asyncio.to_thread(running.wait)
        await clock.asleep(2)
        clock.advance(5)
        await source.reported(address)
    failure = source.rows[address].reports[0].failure
    assert failure is not None
    assert failure.code == "timeout"


async def test_a_thread_that_cannot_be_stopped_keeps_its_slot_and_is_reported() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    running, go = threading.Event(), threading.Event()

    def deaf() -> str:
        running.set()
        go.wait()
        return "too late"

    worker = make_worker(source, clock, deaf, slots=2)
    async with at_work(worker, go):
        address = source.add("deaf", timeout_ms=TIMEOUT)
        await asyncio.to_thread(running.wait)
        await clock.asleep(2)
        await pass_time(clock, 7)
        await source.reported(address)
        assert worker.busy == 1
        await pass_time(clock, 30)
        assert source.sent("beat") == [], "the attempt is over; there is no lease to keep"
        assert source.sent("lease")[-1].slots == 1
        go.set()
        await source.reported(source.add("deaf"))
    assert source.outcomes(address) == ["failed"]
    assert len(source.rows[address].reports) == 1, "what it returned later is not told"


async def test_a_claim_is_kept_while_its_thread_acts_and_its_own_end_is_told() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    running, go = threading.Event(), threading.Event()

    def pay() -> str:
        running.set()
        go.wait()
        return "paid after all"

    async with at_work(make_worker(source, clock, pay), go):
        address = source.add("pay", timeout_ms=TIMEOUT, delivery="at_most_once")
        await asyncio.to_thread(running.wait)
        await clock.asleep(2)
        await pass_time(clock, 40)
        assert source.rows[address].state == "begun"
        assert source.sent("report") == []
        assert len(source.sent("beat")) >= 3
        go.set()
        await source.reported(address)
    assert source.lapses == 0
    assert source.rows[address].reports[0].value == "paid after all"


async def test_a_claim_whose_late_thread_raises_is_a_timeout() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    running, go = threading.Event(), threading.Event()

    def pay() -> str:
        running.set()
        go.wait()
        raise OSError("reset by peer")

    async with at_work(make_worker(source, clock, pay), go):
        address = source.add("pay", timeout_ms=TIMEOUT, delivery="at_most_once")
        await asyncio.to_thread(running.wait)
        await clock.asleep(2)
        await pass_time(clock, 10)
        go.set()
        await source.reported(address)
    failure = source.rows[address].reports[0].failure
    assert failure is not None
    assert failure.code == "timeout"
    assert source.rows[address].state == "uncertain"
