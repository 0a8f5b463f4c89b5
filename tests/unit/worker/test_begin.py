"""`at_most_once`: the body starts once or never, and only after the claim was answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from memory_tasks import Fault, MemoryTasks
from perdure.agent.context import ToolContext
from perdure.agent.probe import Outcome
from perdure.agent.tool import definition_of, tool
from perdure.errors import NotDone, Unreachable
from perdure.system import SystemClock
from perdure.testing.clock import FakeClock
from working import at_work, make_worker

pytestmark = pytest.mark.anyio

ONCE: dict[str, Any] = {"delivery": "at_most_once"}


async def test_the_claim_is_answered_before_the_body_starts() -> None:
    source = MemoryTasks(SystemClock())
    states: list[str] = []

    def pay(cents: int) -> str:
        states.append(source.rows[address].state)
        return "paid"

    async with at_work(make_worker(source, SystemClock(), pay)):
        address = source.add("pay", {"cents": 5}, **ONCE)
        await source.reported(address)
    assert states == ["begun"]
    assert source.rows[address].reports[0].value == "paid"


async def test_other_modes_send_no_begin() -> None:
    def read() -> None: ...

    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), read)):
        one, two = source.add("read"), source.add("read", delivery="repeatable")
        await source.reported(one, two)
    assert source.sent("begin") == []


@pytest.mark.parametrize("after", [False, True], ids=["request lost", "reply lost"])
async def test_a_lost_begin_is_sent_again_with_its_nonce_and_the_body_runs_once(after: bool) -> None:
    ran: list[int] = []

    def pay() -> None:
        ran.append(1)

    source = MemoryTasks(SystemClock())
    source.faults["begin"] = [Fault(Unreachable("lost"), after=after)] * 2
    async with at_work(make_worker(source, SystemClock(), pay)):
        address = source.add("pay", **ONCE)
        await source.reported(address)
    assert len(source.sent("begin")) == 3
    assert len({begin.nonce for begin in source.sent("begin")}) == 1
    assert ran == [1]


async def test_a_refused_begin_starts_nothing_and_says_nothing() -> None:
    ran: list[int] = []

    def pay() -> None:
        ran.append(1)

    source = MemoryTasks(SystemClock())
    gate = asyncio.Event()
    source.faults["begin"] = [Fault(hang=gate)]
    worker = make_worker(source, SystemClock(), pay)
    async with at_work(worker):
        address = source.add("pay", **ONCE)
        await source.until(lambda: source.in_flight["begin"] == 1)
        source.rows[address].fence += 1
        gate.set()
        await source.until(lambda: source.in_flight["begin"] == 0)
        source.rows[address].state = "dead"
        other = source.add("pay")
        await source.reported(other)
    assert ran == [1], "the other's"
    assert source.rows[address].reports == []


async def test_what_is_not_wanted_any_more_goes_back_without_a_begin_of_its_body() -> None:
    ran: list[int] = []

    def pay() -> None:
        ran.append(1)

    source = MemoryTasks(SystemClock())
    source.cancelling = True
    async with at_work(make_worker(source, SystemClock(), pay)):
        address = source.add("pay", **ONCE)
        await source.until(lambda: len(source.sent("hand_back")) == 1)
        source.rows[address].state = "dead"
    assert ran == []


async def test_bad_arguments_are_found_before_begin() -> None:
    def pay(cents: int) -> None: ...

    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), pay)):
        address = source.add("pay", {"cents": "many"}, **ONCE)
        await source.reported(address)
    failure = source.rows[address].reports[0].failure
    assert failure is not None
    assert (failure.code, failure.permanent) == ("invalid_arguments", True)
    assert "cents" in failure.message
    assert source.sent("begin") == []


async def test_an_answer_that_took_longer_than_the_lease_starts_nothing_before_a_heartbeat() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    order: list[str] = []

    async def pay() -> None:
        order.append("body")

    gate = asyncio.Event()
    source.faults["begin"] = [Fault(hang=gate)]
    async with at_work(make_worker(source, clock, pay, tool_loop=asyncio.get_running_loop())):
        address = source.add("pay", **ONCE)
        await source.until(lambda: source.in_flight["begin"] == 1)
        source.faults["beat"] = [Fault(Unreachable("cut off"))] * 40
        clock.advance(29)  # of 30: as if this process had been stopped
        source.rows[address].lease_until_ms += 600_000
        gate.set()
        await source.until(lambda: source.in_flight["begin"] == 0)
        while len(source.faults["beat"]) > 30:
            assert order == []
            await clock.asleep(2)
            clock.advance(1)
            await asyncio.sleep(0)
        source.faults["beat"].clear()
        while not source.rows[address].reports:
            clock.advance(1)
            await asyncio.sleep(0)
    assert order == ["body"]


async def test_a_claim_cancelled_before_its_body_started_says_so() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)

    def pay() -> None:
        raise AssertionError("must not start")

    gate = asyncio.Event()
    source.faults["begin"] = [Fault(hang=gate)]
    async with at_work(make_worker(source, clock, pay)):
        address = source.add("pay", **ONCE)
        await source.until(lambda: source.in_flight["begin"] == 1)
        clock.advance(11)
        await source.until(lambda: len(source.sent("beat")) == 1)
        source.rows[address].state, source.rows[address].begin_nonce = "begun", source.sent("begin")[0].nonce
        source.cancelling = True
        for beats in (2, 3):  # the third is sent when the second's answer was heard
            await clock.asleep(2)
            clock.advance(11)
            await source.until(lambda beats=beats: len(source.sent("beat")) == beats)
        gate.set()
        await source.reported(address)
    report = source.rows[address].reports[0]
    assert report.outcome == "cancelled"
    assert report.failure is not None
    assert "had not started" in report.failure.message


async def test_what_makes_two_calls_the_same_act_is_asked_of_the_tool_before_it_runs() -> None:
    @tool(name="pay", intent=lambda a: (a.order, a.cents))
    def pay(order: str, cents: int, note: str = "") -> str:
        return "paid"

    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), pay)):
        careful = source.add("pay", {"order": "o1", "cents": 5, "note": "x"}, **ONCE)
        plain = source.add("pay", {"order": "o1", "cents": 5, "note": "y"})
        await source.reported(careful, plain)
    assert {begin.address: begin.intent for begin in source.sent("begin")} == {
        careful: '["o1",5]',
        plain: '["o1",5]',
    }


async def test_an_intent_that_breaks_fails_the_call_before_it_begins() -> None:
    @tool(name="pay", intent=lambda a: a.no_such_argument)
    def pay(cents: int) -> str:
        raise AssertionError("it must not run")

    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), pay)):
        address = source.add("pay", {"cents": 5}, **ONCE)
        await source.reported(address)
    assert source.sent("begin") == []
    failure = source.rows[address].reports[0].failure
    assert failure is not None
    assert "no_such_argument" in failure.message


async def test_an_intent_that_is_no_json_is_no_result_that_cannot_be_kept() -> None:
    @tool(name="pay", intent=lambda a: object())
    def pay(cents: int) -> str:
        raise AssertionError("it must not run")

    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), pay)):
        address = source.add("pay", {"cents": 5})
        await source.reported(address)
    failure = source.rows[address].reports[0].failure
    assert failure is not None
    assert (failure.code, failure.permanent) == ("bad_intent", True)


async def test_a_call_that_the_server_serves_otherwise_does_not_run() -> None:
    @tool(name="pay", intent=lambda a: a.cents)
    def pay(cents: int) -> str:
        raise AssertionError("it must not run")

    source = MemoryTasks(SystemClock())
    gate = asyncio.Event()
    source.faults["begin"] = [Fault(hang=gate)]
    async with at_work(make_worker(source, SystemClock(), pay)):
        address = source.add("pay", {"cents": 5})
        await source.until(lambda: source.in_flight["begin"] == 1)
        source.rows[address].fence += 1
        source.rows[address].state = "done"
        gate.set()
        await source.until(lambda: source.in_flight["begin"] == 0)
    assert source.rows[address].reports == []


@pytest.mark.parametrize("delivery", ["at_most_once", "at_least_once"])
async def test_an_authors_word_that_nothing_happened_is_passed_on(delivery: str) -> None:
    def pay() -> None:
        raise NotDone("the bank refused")

    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), pay)):
        address = source.add("pay", delivery=delivery)
        await source.reported(address)
    failure = source.rows[address].reports[0].failure
    assert failure is not None
    assert (failure.code, failure.message, failure.permanent) == ("not_done", "the bank refused", False)


async def test_a_probe_finds_itself_in_the_place_of_the_call_that_it_is_about() -> None:
    seen: list[tuple[str, str, str]] = []

    def look(order: str, ctx: ToolContext) -> Outcome:
        seen.append((order, ctx.step_id, ctx.tool_name))
        return Outcome.happened("receipt")

    @tool(name="pay", delivery="at_most_once", probe=look)
    def pay(order: str, cents: int) -> str:
        raise AssertionError("a probe is no call")

    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), definition_of(pay).probing())):  # type: ignore[arg-type] - a tool
        address = source.add("pay?probe", {"order": "o1", "cents": 5}, delivery="repeatable")
        await source.reported(address)
    assert source.rows[address].reports[0].value == {"happened": True, "value": "receipt"}
    assert seen == [("o1", address, "pay")]
