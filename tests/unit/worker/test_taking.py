"""How a worker takes tasks: one poll for all tools, never more than it can run, and rarely when idle."""

from __future__ import annotations

import asyncio
import threading

import pytest

from memory_tasks import Fault, MemoryTasks
from perdure.agent.tool import tool
from perdure.errors import InvalidInput, Unreachable
from perdure.system import SystemClock
from perdure.testing.clock import FakeClock
from working import at_work, make_worker

pytestmark = pytest.mark.anyio


async def test_a_task_runs_and_its_result_is_reported() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    async def add_later(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), add, add_later)):
        one, two = source.add("add", {"a": 1, "b": 2}), source.add("add_later", {"a": 3, "b": 4})
        await source.reported(one, two)
    assert [source.rows[address].reports[0].value for address in (one, two)] == [3, 7]


async def test_lease_is_bounded_by_free_slots() -> None:
    gates = [threading.Event() for _ in range(5)]

    def wait(n: int) -> int:
        gates[n].wait()
        return n

    source = MemoryTasks(SystemClock())
    addresses = [source.add("wait", {"n": n}) for n in range(5)]
    worker = make_worker(source, SystemClock(), wait, slots=2)
    async with at_work(worker):
        try:
            await source.until(lambda: sum(row.state == "leased" for row in source.rows.values()) == 2)
            await asyncio.sleep(0)
            assert worker.busy == 2
            assert source.in_flight["lease"] == 0, "nothing is asked for while no slot is free"
            gates[0].set()
            await source.until(lambda: len(source.sent("lease")) == 2)
            assert [request.slots for request in source.sent("lease")] == [2, 1]
        finally:
            for gate in gates:
                gate.set()
        await source.reported(*addresses)
    assert max(request.slots for request in source.sent("lease")) == 2


async def test_an_idle_worker_of_ten_tools_asks_rarely() -> None:
    clock = FakeClock()
    tools = []
    for n in range(10):

        @tool(name=f"tool_{n}")
        def one() -> None: ...

        tools.append(one)
    source = MemoryTasks(clock)
    async with at_work(make_worker(source, clock, *tools)):
        for _ in range(60):
            await clock.asleep(1)
            clock.advance(1)
            await asyncio.sleep(0)
        assert len(source.seen) <= 6
        assert {len(request.lanes) for request in source.sent("lease")} == {10}
        assert source.sent("beat") == []


async def test_a_source_that_does_not_wait_is_not_hammered() -> None:
    def nothing() -> None: ...

    clock = FakeClock()
    source = MemoryTasks(clock, waits=False)
    async with at_work(make_worker(source, clock, nothing)):
        for _ in range(100):
            await clock.asleep(1)
            clock.advance(0.1)
            await asyncio.sleep(0)
        assert len(source.sent("lease")) <= 30, "10 s: quick at first, then about one a second"


async def test_a_lost_lease_reply_is_asked_for_again_and_nothing_runs_twice() -> None:
    ran: list[int] = []

    def work(n: int) -> None:
        ran.append(n)

    source = MemoryTasks(SystemClock())
    address = source.add("work", {"n": 7})
    source.faults["lease"] = [Fault(Unreachable("reply lost"), after=True)]
    async with at_work(make_worker(source, SystemClock(), work)):
        await source.reported(address)
    first, second = source.sent("lease")[:2]
    assert first == second
    assert ran == [7]
    assert source.rows[address].attempt == 1


async def test_a_worker_without_tools_or_slots_is_refused() -> None:
    def nothing() -> None: ...

    source = MemoryTasks(SystemClock())
    for tools, slots in (((), 1), ((nothing,), 0)):
        with pytest.raises(InvalidInput) as caught:
            make_worker(source, SystemClock(), *tools, slots=slots)
        assert caught.value.code == "bad_worker"


async def test_a_task_for_a_tool_it_does_not_have_fails_for_good() -> None:
    def known() -> None: ...

    source = MemoryTasks(SystemClock())
    source.careless = True
    async with at_work(make_worker(source, SystemClock(), known)):
        address = source.add("unknown")
        await source.reported(address)
    failure = source.rows[address].reports[0].failure
    assert failure is not None
    assert (failure.code, failure.permanent) == ("unknown_tool", True)
