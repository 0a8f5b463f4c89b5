"""A result is delivered, whatever becomes of the connection, for as long as the process lives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from memory_tasks import Fault, MemoryTasks
from perdure.core.delivery import UNKEPT
from perdure.errors import InternalError, InvalidInput, LimitExceeded, Retryable, StoreFull, Unauthorized, Unreachable
from perdure.system import SystemClock
from perdure.testing.clock import FakeClock
from working import at_work, make_worker

pytestmark = pytest.mark.anyio


def number(n: int) -> int:
    return n


async def turn(clock: FakeClock, until: Callable[[], Any], step: float = 1) -> None:
    """Let time pass until a fact holds."""
    for _ in range(2_000):
        if until():
            return
        clock.advance(step)
        for _ in range(20):
            await asyncio.sleep(0)
    raise AssertionError("it never came about")


@pytest.mark.parametrize(
    "error", [Unreachable("gone"), StoreFull("full"), Unauthorized("revoked"), InternalError("bug"), OSError("reset")]
)
@pytest.mark.parametrize("after", [False, True], ids=["request lost", "reply lost"])
async def test_a_result_is_said_again_until_it_is_answered(error: Exception, after: bool) -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    source.faults["report"] = [Fault(error, after=after)] * 100
    async with at_work(make_worker(source, clock, number)):
        address = source.add("number", {"n": 7})
        await source.until(lambda: len(source.sent("report")) > 0)
        await turn(clock, lambda: len(source.sent("report")) == 101 and not source.in_flight["report"])
    assert source.outcomes(address) == ["completed"], "accepted once"
    assert source.rows[address].attempt == 1
    assert source.rows[address].reports[0].value == 7
    assert 300 < clock.monotonic_ms() / 1000 < 600, "pauses grow to 5 s and no further"


async def test_the_lease_is_kept_until_the_result_is_answered() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    source.faults["report"] = [Fault(Retryable("try later"))] * 30
    async with at_work(make_worker(source, clock, number)):
        address = source.add("number", {"n": 7})
        await source.until(lambda: len(source.sent("report")) > 0)
        await turn(clock, lambda: source.rows[address].reports)
    assert clock.monotonic_ms() > 60_000
    assert source.lapses == 0
    assert len(source.sent("beat")) > 5


async def test_one_request_is_under_way_and_the_rest_goes_with_the_next() -> None:
    source = MemoryTasks(SystemClock())
    gate = asyncio.Event()
    source.faults["report"] = [Fault(hang=gate)]
    worker = make_worker(source, SystemClock(), number, slots=20)
    async with at_work(worker):
        addresses = [source.add("number", {"n": n}) for n in range(20)]
        await source.until(lambda: source.in_flight["report"] == 1)
        await source.until(lambda: source.in_flight["lease"] == 1 and len(source.sent("lease")) > 1)
        gate.set()
        await source.reported(*addresses)
    assert sum(len(batch) for batch in source.sent("report")) == 20
    assert len(source.sent("report")) < 20


async def test_undelivered_results_bound_what_is_taken() -> None:
    source = MemoryTasks(SystemClock())
    gate = asyncio.Event()
    source.faults["report"] = [Fault(hang=gate)]
    async with at_work(make_worker(source, SystemClock(), number, slots=2)):
        addresses = [source.add("number", {"n": n}) for n in range(20)]
        await source.until(lambda: sum(row.state == "leased" for row in source.rows.values()) == 4)
        assert source.in_flight["lease"] == 0
        gate.set()
        await source.reported(*addresses)


async def test_a_result_survives_an_outage_that_began_while_the_body_ran() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    running, go = threading.Event(), threading.Event()

    def work() -> str:
        running.set()
        go.wait()
        return "worth keeping"

    async with at_work(make_worker(source, clock, work), go):
        address = source.add("work")
        await asyncio.to_thread(running.wait)
        source.close_link()
        for verb in ("report", "beat", "lease"):
            source.faults[verb] = [Fault(Unreachable("no server"))] * 1_000
        go.set()
        await turn(clock, lambda: len(source.sent("report")) > 5 and clock.monotonic_ms() > 25_000)
        source.faults.clear()
        source.open_link()
        await turn(clock, lambda: source.rows[address].reports)
    assert source.rows[address].reports[0].value == "worth keeping"


async def test_reconnection_delivers_at_once() -> None:
    clock = FakeClock()
    source = MemoryTasks(clock)
    async with at_work(make_worker(source, clock, number)):
        source.faults["report"] = [Fault(Unreachable("no server"))] * 20
        address = source.add("number", {"n": 1})
        await source.until(lambda: len(source.sent("report")) == 1)
        source.close_link()
        await turn(clock, lambda: not source.faults["report"])
        before = len(source.sent("alive"))
        source.open_link()
        await turn(clock, lambda: len(source.sent("alive")) > before, step=0.1)
        await source.reported(address)


async def test_a_result_the_server_will_not_take_is_a_failure_instead() -> None:
    source = MemoryTasks(SystemClock())
    source.faults["report"] = [Fault(LimitExceeded("8 MB at most", code="too_large"))]
    async with at_work(make_worker(source, SystemClock(), number)):
        address = source.add("number", {"n": 1})
        await source.reported(address)
    failure = source.rows[address].reports[0].failure
    assert failure is not None
    assert (failure.code, failure.permanent) == ("too_large", True)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LimitExceeded("too many lists", code="json_too_large"), "too_large"),
        (InvalidInput("its content is gone", code="blob_missing"), "unserialisable"),
    ],
)
async def test_whatever_it_is_refused_for_it_is_the_result_that_failed_and_not_the_tool(
    error: InvalidInput | LimitExceeded, code: str
) -> None:
    """By these codes the server knows that it may have acted, and has nobody told that it failed."""
    source = MemoryTasks(SystemClock())
    source.faults["report"] = [Fault(error)]
    async with at_work(make_worker(source, SystemClock(), number)):
        address = source.add("number", {"n": 1})
        await source.reported(address)
    failure = source.rows[address].reports[0].failure
    assert failure is not None
    assert failure.code == code
    assert failure.code in UNKEPT
    assert error.message in failure.message


async def test_one_that_is_refused_does_not_take_others_with_it() -> None:
    source = MemoryTasks(SystemClock())
    gate = asyncio.Event()
    refusal = LimitExceeded("8 MB at most", code="too_large")
    # The first waits, so that the next ones share a request; that is refused, and so is the first of them alone.
    source.faults["report"] = [Fault(hang=gate), Fault(refusal), Fault(refusal)]
    async with at_work(make_worker(source, SystemClock(), number)):
        first = source.add("number", {"n": 0})
        await source.until(lambda: source.in_flight["report"] == 1)
        others = [source.add("number", {"n": n}) for n in (1, 2, 3)]
        await source.until(lambda: source.in_flight["lease"] == 1 and source.rows[others[-1]].state == "leased")
        await asyncio.to_thread(lambda: None)
        gate.set()
        await source.reported(first, *others)
    ends = sorted(source.outcomes(address)[0] for address in (first, *others))
    assert ends == ["completed", "completed", "completed", "failed"]


async def test_a_refused_result_is_told_to_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), number)):
        gate = asyncio.Event()
        source.faults["report"] = [Fault(hang=gate)]
        address = source.add("number", {"n": 123456})
        await source.until(lambda: source.in_flight["report"] == 1)
        source.rows[address].fence += 1
        source.rows[address].state = "dead"
        gate.set()
        await source.until(lambda: source.in_flight["report"] == 0)
    told = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("worker.result_refused") for line in told)
    assert not any("123456" in line for line in told), "no payloads"
