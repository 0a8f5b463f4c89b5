"""What a body says while it runs: taken along by heartbeats, the newest only, and given to the next attempt."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from memory_tasks import Fault, MemoryTasks
from perdure.agent.context import ToolContext
from perdure.core.work import MAX_SAVED_BYTES, Held
from perdure.errors import InvalidInput, LimitExceeded, Unreachable
from perdure.system import SystemClock
from working import at_work, make_worker

pytestmark = pytest.mark.anyio


def told(source: MemoryTasks, what: str) -> list[str]:
    """Return what heartbeats took along, in order."""
    beats: list[list[Held]] = source.sent("beat")
    return [said for held in beats for one in held if (said := getattr(one, what)) is not None]


async def test_progress_is_told_soon_and_only_the_newest_of_it() -> None:
    source = MemoryTasks(SystemClock())
    gate = threading.Event()

    def work(ctx: ToolContext) -> None:
        for number in range(101):
            ctx.progress(number / 100)
        gate.wait()

    async with at_work(make_worker(source, SystemClock(), work), gate):
        address = source.add("work")
        await source.until(lambda: told(source, "progress") != [])
        assert told(source, "progress") == ["1.0"]
        gate.set()
        await source.reported(address)


async def test_words_are_progress_too_and_are_cut() -> None:
    source = MemoryTasks(SystemClock())
    go_on = asyncio.Event()

    async def work(ctx: ToolContext) -> None:
        ctx.progress("page 3 of 7" + " " * 1_000)
        await go_on.wait()

    async with at_work(make_worker(source, SystemClock(), work, tool_loop=asyncio.get_running_loop())):
        address = source.add("work")
        await source.until(lambda: told(source, "progress") != [])
        go_on.set()
        await source.reported(address)
    [said] = told(source, "progress")
    assert said.startswith('"page 3 of 7 ')
    assert len(said) == 202


async def test_what_was_saved_is_told_again_if_a_heartbeat_fails() -> None:
    source = MemoryTasks(SystemClock())
    source.faults["beat"] = [Fault(Unreachable("not now"))]
    gate = threading.Event()

    def work(ctx: ToolContext) -> None:
        ctx.checkpoint({"done": 3})
        gate.wait()

    async with at_work(make_worker(source, SystemClock(), work), gate):
        address = source.add("work")
        await source.until(lambda: len(told(source, "saved")) == 2)
        gate.set()
        await source.reported(address)
    assert told(source, "saved") == ['{"done":3}', '{"done":3}']


async def test_a_failed_attempt_reports_what_it_saved_last() -> None:
    source = MemoryTasks(SystemClock())

    def work(ctx: ToolContext) -> None:
        for number in range(3):
            ctx.checkpoint({"done": number})
        raise ValueError("no")

    async with at_work(make_worker(source, SystemClock(), work)):
        address = source.add("work")
        await source.reported(address)
    assert source.rows[address].reports[0].saved == '{"done":2}'


async def test_the_next_attempt_finds_it() -> None:
    source = MemoryTasks(SystemClock())

    def work(ctx: ToolContext) -> Any:
        return ctx.last_checkpoint

    async with at_work(make_worker(source, SystemClock(), work)):
        first, second = source.add("work"), source.add("work", saved='{"done":3}')
        await source.reported(first, second)
    assert (source.rows[first].reports[0].value, source.rows[second].reports[0].value) == (None, {"done": 3})


@pytest.mark.parametrize("said", [-0.1, 1.1, float("nan")])
def test_a_fraction_that_is_none_is_refused(said: float) -> None:
    with pytest.raises(InvalidInput):
        ToolContext().progress(said)


def test_what_cannot_be_kept_is_refused_at_once() -> None:
    with pytest.raises(InvalidInput):
        ToolContext().checkpoint(object())
    with pytest.raises(LimitExceeded):
        ToolContext().checkpoint("x" * MAX_SAVED_BYTES)


async def test_what_cannot_be_kept_is_never_tried_again() -> None:
    source = MemoryTasks(SystemClock())

    def work(ctx: ToolContext) -> None:
        ctx.checkpoint("x" * MAX_SAVED_BYTES)

    async with at_work(make_worker(source, SystemClock(), work)):
        address = source.add("work")
        await source.reported(address)
    failure = source.rows[address].reports[0].failure
    assert failure is not None
    assert (failure.code, failure.permanent) == ("too_large", True)
