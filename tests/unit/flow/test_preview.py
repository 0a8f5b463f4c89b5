"""Code that is shown its own step before the log has it: one commit less, and nothing that anybody could tell."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from driving import Door, gives, run_of, task
from memory_journal import MemoryLog
from perdure.core.events import Event, Kind
from perdure.core.items import Item
from perdure.errors import InvalidInput
from perdure.flow.context import Context, Failed, Try
from perdure.flow.driver import Outcome

pytestmark = pytest.mark.anyio


async def a_turn(ctx: Context) -> Any:
    """A step, and a call that follows from what it gave."""
    call = await ctx.step("model", "d", gives('"call"'))
    assert call == "call"
    event = await ctx.task(task("tool"))
    return event.data["value"]


class Drive:
    """A run that is shown its steps early, and the log that it holds."""

    def __init__(self, function: Any, log: MemoryLog | None = None) -> None:
        self.log = log or MemoryLog()
        self.run = run_of(function)
        self.journal = self.log.claim(self.run)

    def go(self) -> asyncio.Task[Outcome]:
        events = self.log.events[self.run.replay.last_seq :]
        return asyncio.get_running_loop().create_task(self.run.drive(self.journal, events, self.journal))


async def until(fact: Any) -> None:
    async with asyncio.timeout(60):
        while not fact():  # noqa: ASYNC110 - a fact of any kind has no event
            await asyncio.sleep(0)


async def test_a_result_and_what_follows_from_it_are_one_record() -> None:
    one = Drive(a_turn)
    outcome = one.go()
    await until(lambda: "tool" in one.log.open())
    assert one.journal.verbs == ["record_previewed"]
    one.log.append(Kind.TASK_COMPLETED, "tool", value=7)
    assert await outcome == "ended"
    assert one.log.kinds == ["started", "step_recorded", "task_scheduled", "task_completed", "completed"]


async def test_where_somebody_came_first_only_the_result_counts_and_the_log_is_read_again() -> None:
    one = Drive(a_turn)

    async def meanwhile(_verb: str) -> None:
        one.journal.gate = None
        one.log.deaf = True
        one.log.append(Kind.MESSAGE, text="wait")

    one.journal.gate = meanwhile
    assert await one.go() == "overtaken"
    assert one.log.kinds == ["started", "message", "step_recorded"]
    again = Drive(a_turn, one.log)
    outcome = again.go()
    await until(lambda: "tool" in again.log.open())
    again.log.append(Kind.TASK_COMPLETED, "tool", value=7)
    assert await outcome == "ended"
    assert again.log.events[-1].data == {"output": 7}


async def test_no_body_begins_before_the_log_has_what_led_to_it() -> None:
    """What a body does cannot be taken back."""
    door = Door()

    async def code(ctx: Context) -> None:
        await ctx.step("first", "d", gives("1"))
        await ctx.gather(ctx.step("second", "d", door), ctx.task(task("tool")))

    one = Drive(code)
    written = asyncio.Event()

    async def gate(_verb: str) -> None:
        assert not door.entered.is_set()
        await written.wait()

    one.journal.gate = gate
    outcome = one.go()
    await until(lambda: one.journal.verbs)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not door.entered.is_set()
    written.set()
    await door.entered.wait()
    assert one.log.kinds == ["started", "step_recorded", "task_scheduled"]
    outcome.cancel()
    await one.run.close()


async def test_a_result_is_kept_though_what_follows_from_it_is_refused() -> None:
    one = Drive(a_turn)
    original = one.journal.record_previewed

    async def refuse(seen: int, items: Sequence[Item]) -> list[Event] | None:
        if len(items) > 1:
            raise InvalidInput("too much", code="too_large")
        return await original(seen, items)

    one.journal.record_previewed = refuse
    assert await one.go() == "halted"
    assert one.log.kinds == ["started", "step_recorded", "stuck"]


async def test_while_another_body_runs_a_result_is_written_first() -> None:
    door, ran = Door(), list[Try]()

    async def code(ctx: Context) -> None:
        await ctx.gather(ctx.step("slow", "d", door), ctx.step("quick", "d", gives("1", ran)))

    one = Drive(code)
    outcome = one.go()
    await until(lambda: "step_recorded" in one.log.kinds)
    assert one.journal.verbs == ["record"]
    door.opened.set()
    assert await outcome == "ended"


async def test_a_limit_that_is_passed_meanwhile_ends_the_execution_after_the_record() -> None:
    async def code(ctx: Context) -> None:
        await ctx.step("model", "d", gives('"call"'))
        one.run.interrupt(Failed("limit_exceeded", "it took too long"))
        await ctx.task(task("tool"))

    one = Drive(code)
    assert await one.go() == "ended"
    assert one.log.kinds[:2] == ["started", "step_recorded"]
    assert one.log.kinds[-1] == "failed"
