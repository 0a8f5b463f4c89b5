"""How a worker keeps what it holds, and what it does when it cannot."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from memory_tasks import Fault, MemoryTasks
from perdure.agent.context import Cancelled, ToolContext
from perdure.errors import LeaseLost, Unreachable
from perdure.testing.clock import FakeClock
from working import at_work, make_worker

pytestmark = pytest.mark.anyio


class Body:
    """An async tool that runs until it is let go, and notes what befell it."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.fate = "running"

    async def hold(self) -> str:
        self.started.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.fate = "cancelled"
            self.cancelled.set()
            raise
        self.fate = "finished"
        return "done"


async def beats(source: MemoryTasks, clock: FakeClock, count: int, step: float = 11) -> None:
    """Let so many more heartbeats be sent, each after the last was answered and heard."""
    for _ in range(count):
        seen = len(source.sent("beat"))
        await clock.asleep(2)
        clock.advance(step)
        await source.until(lambda seen=seen: len(source.sent("beat")) > seen)


async def test_a_lease_is_kept_for_as_long_as_the_body_runs() -> None:
    clock = FakeClock()
    source, body = MemoryTasks(clock), Body()
    async with at_work(make_worker(source, clock, body.hold, tool_loop=asyncio.get_running_loop())):
        address = source.add("hold")
        await body.started.wait()
        await beats(source, clock, 10)
        body.go.set()
        await source.reported(address)
    assert clock.monotonic_ms() > 100_000
    assert source.outcomes(address) == ["completed"]
    assert {len(held) for held in source.sent("beat")} == {1}


async def test_one_heartbeat_speaks_for_all() -> None:
    clock = FakeClock()
    source, body = MemoryTasks(clock), Body()
    async with at_work(make_worker(source, clock, body.hold, tool_loop=asyncio.get_running_loop())):
        addresses = [source.add("hold") for _ in range(5)]
        await source.until(lambda: all(source.rows[a].state == "leased" for a in addresses))
        await body.started.wait()
        await beats(source, clock, 3)
        body.go.set()
        await source.reported(*addresses)
    assert [len(held) for held in source.sent("beat")] == [5, 5, 5]


@pytest.mark.parametrize("kind", ["blocks its loop", "holds the interpreter", "blocks its thread"])
async def test_a_body_that_blocks_for_three_leases_keeps_its_lease(kind: str) -> None:
    clock, here = FakeClock(), asyncio.get_running_loop()
    source = MemoryTasks(clock)

    def until(fact: Callable[[], bool], rest: Callable[[], object]) -> None:
        patience = time.monotonic() + 60
        while not fact():
            assert time.monotonic() < patience, "the body keeps its worker from beating"
            rest()

    def three_leases(rest: Callable[[], object]) -> str:
        """Have the clock pass three leases of 30 s, without ever giving way; heartbeats are due every third of one."""
        for _ in range(9):
            seen = len(source.sent("beat"))
            until(asyncio.run_coroutine_threadsafe(clock.asleep(2), here).done, rest)
            clock.advance(10)
            until(lambda seen=seen: len(source.sent("beat")) > seen, rest)
        return kind

    async def blocks() -> str:
        return three_leases(lambda: time.sleep(0.001))

    async def spins() -> str:
        return three_leases(lambda: sum(range(1_000)))

    def sleeps() -> str:
        return three_leases(lambda: time.sleep(0.001))

    body = {"blocks its loop": blocks, "holds the interpreter": spins, "blocks its thread": sleeps}[kind]
    async with at_work(make_worker(source, clock, body)):
        address = source.add(body.__name__)
        await source.reported(address)
    assert source.rows[address].reports[0].value == kind
    assert source.rows[address].attempt == 1
    assert source.lapses == 0
    assert clock.monotonic_ms() == 90_000


async def test_a_lost_lease_cancels_the_body_and_nothing_is_said() -> None:
    clock = FakeClock()
    source, body = MemoryTasks(clock), Body()
    async with at_work(make_worker(source, clock, body.hold, tool_loop=asyncio.get_running_loop())):
        address = source.add("hold")
        await body.started.wait()
        source.rows[address].fence += 1
        source.rows[address].state = "dead"
        await beats(source, clock, 1)
        await body.cancelled.wait()
    assert body.fate == "cancelled"
    assert source.sent("report") == []


async def test_a_thread_learns_of_a_lost_lease_and_its_result_is_refused() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    running = threading.Event()
    raised: list[type[BaseException]] = []

    def stubborn(ctx: ToolContext) -> str:
        running.set()
        while not ctx.cancelled:
            time.sleep(0.001)
        try:
            ctx.heartbeat()
        except LeaseLost as error:
            raised.append(type(error))
        return "all the same"

    async with at_work(make_worker(source, clock, stubborn)):
        address = source.add("stubborn")
        await asyncio.to_thread(running.wait)
        source.rows[address].fence += 1
        source.rows[address].state = "dead"
        await beats(source, clock, 1)
        await source.until(lambda: len(source.sent("report")) == 1)
    assert raised == [LeaseLost]
    assert source.rows[address].reports == [], "said, as evidence, and refused"


async def test_asked_to_cancel_a_body_is_stopped_and_says_so() -> None:
    clock = FakeClock()
    source, body = MemoryTasks(clock), Body()
    async with at_work(make_worker(source, clock, body.hold, tool_loop=asyncio.get_running_loop())):
        address = source.add("hold")
        await body.started.wait()
        source.cancelling = True
        await beats(source, clock, 1)
        await source.reported(address)
    assert body.fate == "cancelled"
    assert source.outcomes(address) == ["cancelled"]


async def test_a_thread_learns_of_a_cancel_whatever_it_catches() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    running = threading.Event()

    def careless(ctx: ToolContext) -> str:
        running.set()
        while not ctx.cancelled:
            time.sleep(0.001)
        try:
            ctx.heartbeat()
        except Exception:  # noqa: BLE001 - what users write
            return "swallowed"
        return "never asked"

    async with at_work(make_worker(source, clock, careless)):
        address = source.add("careless")
        await asyncio.to_thread(running.wait)
        source.cancelling = True
        await beats(source, clock, 1)
        await source.reported(address)
    assert source.outcomes(address) == ["cancelled"]
    assert not issubclass(Cancelled, Exception)


async def test_a_result_returned_in_spite_of_a_cancel_is_told() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    running, go = threading.Event(), threading.Event()

    def finish() -> str:
        running.set()
        go.wait()
        return "finished"

    async with at_work(make_worker(source, clock, finish), go):
        address = source.add("finish")
        await asyncio.to_thread(running.wait)
        source.cancelling = True
        await beats(source, clock, 2)
        go.set()
        await source.reported(address)
    assert source.rows[address].reports[0].value == "finished"


async def test_a_body_may_ask_for_a_heartbeat_and_gets_one_only_when_due() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    running, look, done = threading.Event(), threading.Event(), threading.Event()

    def eager(ctx: ToolContext) -> None:
        running.set()
        look.wait()
        for _ in range(1_000):
            ctx.heartbeat()
        done.wait()

    async with at_work(make_worker(source, clock, eager), look, done):
        address = source.add("eager")
        await asyncio.to_thread(running.wait)
        look.set()
        done.set()
        await source.reported(address)
    assert source.sent("beat") == []


async def test_a_heartbeat_overtaken_by_a_report_is_no_lost_lease() -> None:
    clock = FakeClock()
    source, body = MemoryTasks(clock), Body()
    gate, late = asyncio.Event(), asyncio.Event()
    async with at_work(make_worker(source, clock, body.hold, tool_loop=asyncio.get_running_loop())):
        address = source.add("hold")
        await body.started.wait()
        source.faults["report"] = [Fault(hang=gate)]
        source.faults["beat"] = [Fault(hang=late)]
        await beats(source, clock, 1)
        body.go.set()
        await source.until(lambda: source.in_flight["report"] == 1)
        row = source.rows[address]
        row.state = "done"  # the report has arrived, its answer has not
        row.reports.append(source.sent("report")[0][0])
        late.set()
        await source.until(lambda: source.in_flight["beat"] == 0)
        gate.set()
        await source.until(lambda: source.in_flight["report"] == 0)
        await source.reported(source.add("hold"))
    assert len(source.sent("report")) == 2


async def test_a_heartbeat_that_hangs_is_followed_by_another_in_time() -> None:
    clock = FakeClock()
    source, body = MemoryTasks(clock), Body()
    async with at_work(make_worker(source, clock, body.hold, tool_loop=asyncio.get_running_loop())):
        address = source.add("hold")
        await body.started.wait()
        source.faults["beat"] = [Fault(hang=asyncio.Event()), Fault(hang=asyncio.Event())]
        await beats(source, clock, 1, step=10)
        while len(source.sent("beat")) < 3:
            await clock.asleep(2)
            clock.advance(1)
            await asyncio.sleep(0)
        assert clock.monotonic_ms() < 25_000
        body.go.set()
        await source.reported(address)
    assert source.lapses == 0


async def test_nothing_starts_near_the_end_of_a_lease() -> None:
    clock = FakeClock()
    source, body = MemoryTasks(clock), Body()
    gate = asyncio.Event()
    source.faults["lease"] = [Fault(hang=gate)]
    async with at_work(make_worker(source, clock, body.hold, tool_loop=asyncio.get_running_loop())):
        await source.until(lambda: source.in_flight["lease"] == 1)
        address = source.add("hold")
        held = asyncio.Event()
        source.faults["beat"] = [Fault(hang=held)]
        clock.advance(26)  # the reply was under way for most of the lease
        gate.set()
        await source.until(lambda: source.in_flight["beat"] == 1)
        assert not body.started.is_set()
        held.set()
        await body.started.wait()
        body.go.set()
        await source.reported(address)


async def test_while_the_connection_is_closed_nothing_starts_and_what_runs_goes_on() -> None:
    clock = FakeClock()
    source, body = MemoryTasks(clock), Body()
    async with at_work(make_worker(source, clock, body.hold, tool_loop=asyncio.get_running_loop())):
        first = source.add("hold")
        await body.started.wait()
        source.close_link()
        await source.until(lambda: len(source.sent("alive")) == 1)
        clock.advance(20)  # the poll that was under way ends
        second = source.add("hold")
        await beats(source, clock, 5, step=1)
        assert source.rows[second].state in ("ready", "leased")
        assert len(source.sent("report")) == 0
        body.go.set()
        await source.reported(first)
        assert source.rows[second].reports == []
        source.open_link()
        while not source.rows[second].reports:
            clock.advance(1)
            await asyncio.sleep(0)
    assert source.outcomes(first) == ["completed"]


async def test_leases_that_a_closed_connection_cut_short_are_restored_in_time() -> None:
    clock = FakeClock()
    source, body = MemoryTasks(clock), Body()
    async with at_work(make_worker(source, clock, body.hold, tool_loop=asyncio.get_running_loop())):
        address = source.add("hold")
        await body.started.wait()
        await beats(source, clock, 1)
        source.close_link()
        row = source.rows[address]
        row.lease_until_ms = clock.monotonic_ms() + 3_000
        await beats(source, clock, 2, step=1)
        assert row.lease_until_ms > clock.monotonic_ms() + 3_000
        source.open_link()
        seen = len(source.sent("alive"))
        while len(source.sent("alive")) == seen:
            await clock.asleep(1)
            clock.advance(0.5)
            await asyncio.sleep(0)
        row.lease_until_ms = clock.monotonic_ms() + 3_000  # the server saw the old one close after the new one opened
        await beats(source, clock, 1, step=1)
        assert row.lease_until_ms > clock.monotonic_ms() + 3_000
        body.go.set()
        await source.reported(address)
    assert source.lapses == 0


async def test_disconnection_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)

    def nothing() -> None: ...

    async with at_work(make_worker(source, clock, nothing)):
        source.faults["lease"] = [Fault(Unreachable("gone"))] * 50
        source.close_link()
        for _ in range(40):
            await clock.asleep(1)
            clock.advance(1)
            await asyncio.sleep(0)
        tries = len(source.sent("alive"))
    assert tries > 5
    assert caplog.text.count("worker.disconnected") == 1
