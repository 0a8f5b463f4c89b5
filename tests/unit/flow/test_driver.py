"""One live coroutine and its log: what is started when, what is handed over when, and when it parks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from driving import Door, drive, driven, gives, run_of, task
from memory_journal import MemoryLog
from perdure.core.codec import digest
from perdure.core.events import Event, Kind
from perdure.flow import driver
from perdure.flow.context import Context, Failed, Try
from programs import in_virtual_time

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LINGER_SECONDS", 0.001)


# -- steps -------------------------------------------------------------------------------------------------------------


async def test_a_step_runs_once_and_its_recorded_value_is_what_the_code_sees() -> None:
    ran: list[Try] = []

    async def code(ctx: Context) -> Any:
        return await ctx.step("a", "d", gives('{"n":1.0}', ran))

    log = MemoryLog()
    assert await drive(code, log) == "ended"
    assert log.events[-1].data == {"output": {"n": 1.0}}
    again = MemoryLog(log.events[:-1])
    assert await drive(code, again) == "ended"
    assert [event.data for event in again.events] == [event.data for event in log.events]
    assert len(ran) == 1
    assert ran[0].key == "exe_1/a"


async def test_a_body_is_told_how_often_it_may_have_run_before() -> None:
    ran: list[Try] = []

    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", gives("1", ran))
        await ctx.step("b", "d", gives("2", ran))

    log = MemoryLog()
    log.append(Kind.TAKEN_OVER)
    log.append(Kind.TAKEN_OVER)
    await drive(code, log)
    assert [attempt.takeovers for attempt in ran] == [2, 0]


async def test_branches_see_events_one_at_a_time_in_the_order_of_the_log() -> None:
    seen: list[str] = []

    async def branch(ctx: Context, name: str) -> str:
        await ctx.task(task(name))
        seen.append(name)
        await ctx.task(task(name + "2"))
        seen.append(name + "2")
        return name

    async def code(ctx: Context) -> Any:
        return await ctx.gather(branch(ctx, "a"), branch(ctx, "b"), branch(ctx, "c"))

    async with driven(code) as stage:
        await stage.until(lambda: len(stage.log.open()) == 3)
        for name in ("c", "a", "c2", "b", "a2", "b2"):
            await stage.until(lambda name=name: name in stage.log.open())
            stage.log.append(Kind.TASK_COMPLETED, name, value=name)
        assert await stage.outcome == "ended"
        assert stage.log.events[-1].data == {"output": ["a", "b", "c"]}
    live, seen = seen, []
    await drive(code, MemoryLog(stage.log.events[:-1]))
    assert seen == live == ["c", "a", "c2", "b", "a2", "b2"]


async def test_answers_that_arrive_together_are_handed_over_apart() -> None:
    """The code runs until it waits again before it sees the next one."""
    seen: list[str] = []

    async def branch(ctx: Context, name: str) -> None:
        await ctx.task(task(name))
        seen.append(f"{name} answered")
        await ctx.step(name + "2", "d", gives("1"))
        seen.append(f"{name} done")

    async def code(ctx: Context) -> None:
        await ctx.gather(branch(ctx, "a"), branch(ctx, "b"))

    async with driven(code) as stage:
        await stage.until(lambda: len(stage.log.open()) == 2)
        stage.log.deaf = True
        stage.log.append(Kind.TASK_COMPLETED, "b", value=1)
        stage.log.append(Kind.TASK_COMPLETED, "a", value=1)
        stage.run.hint([], stage.log.events[-1].seq)
        assert await stage.outcome == "ended"
    live, seen = seen, []
    await drive(code, MemoryLog(stage.log.events[:-1]))
    assert seen == live == ["b answered", "a answered", "b done", "a done"]


async def test_the_first_error_of_branches_is_raised_when_all_have_ended() -> None:
    ended: list[str] = []

    async def branch(ctx: Context, name: str) -> None:
        event = await ctx.task(task(name))
        ended.append(name)
        if event.kind is Kind.TASK_FAILED:
            raise Failed("broken", f"{name} broke")

    async def code(ctx: Context) -> None:
        await ctx.gather(branch(ctx, "a"), branch(ctx, "b"))

    async with driven(code) as stage:
        await stage.until(lambda: len(stage.log.open()) == 2)
        stage.log.append(Kind.TASK_FAILED, "a", error="x")
        await stage.until(lambda: ended == ["a"])
        stage.log.append(Kind.TASK_COMPLETED, "b", value=1)
        assert await stage.outcome == "ended"
        assert ended == ["a", "b"]
        assert stage.log.events[-1].kind is Kind.FAILED
        assert stage.log.events[-1].data == {"error": "a broke", "code": "broken"}


async def test_no_branches_are_no_wait() -> None:
    async def code(ctx: Context) -> Any:
        return await ctx.gather()

    log = MemoryLog()
    assert await drive(code, log) == "ended"
    assert log.events[-1].data == {"output": []}


# -- parking -----------------------------------------------------------------------------------------------------------


async def test_what_waits_for_others_parks_and_goes_on_where_it_was() -> None:
    ran: list[Try] = []

    async def code(ctx: Context) -> Any:
        await ctx.step("a", "d", gives("1", ran))
        return (await ctx.task(task("b"))).data["value"]

    run = run_of(code)
    log = MemoryLog()
    first = log.claim(run)
    assert await run.drive(first, log.events) == "parked"
    log.append(Kind.TASK_COMPLETED, "b", value=7)
    assert await run.drive(log.claim(run), log.events[run.replay.last_seq :]) == "ended"
    assert log.events[-1].data == {"output": 7}
    assert len(ran) == 1


async def test_a_tool_that_answers_at_once_costs_no_park(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LINGER_SECONDS", 5.0)

    async def code(ctx: Context) -> None:
        await ctx.task(task("a"))

    async with driven(code) as stage:
        await stage.until(lambda: stage.log.open())
        stage.log.append(Kind.TASK_COMPLETED, "a", value=1)
        assert await stage.outcome == "ended"
        assert "park" not in stage.journal.verbs


async def test_nothing_parks_over_news_that_came_with_the_park() -> None:
    async def code(ctx: Context) -> None:
        await ctx.task(task("a"))

    async with driven(code) as stage:
        stage.log.deaf = True
        told: list[str] = []

        async def gate(verb: str) -> None:
            if verb == "park" and not told:
                told.append(verb)
                stage.log.append(Kind.TASK_COMPLETED, "a", value=1)

        stage.journal.gate = gate
        assert await stage.outcome == "ended"
        assert told == ["park"]


def test_news_in_the_very_moment_of_parking_are_not_slept_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint comes with the timer that ends the lingering: it is fed, and not yet handed over."""
    monkeypatch.setattr(driver, "LINGER_SECONDS", 0.05)

    async def code(ctx: Context) -> str:
        await ctx.task(task("a"))
        return "done"

    async def scene() -> None:
        async with driven(code) as stage:
            await stage.until(lambda: stage.log.open())
            stage.log.events.append(Event(3, Kind.TASK_COMPLETED, "a", "", {"value": 1}, 0))
            asyncio.get_running_loop().call_later(0.05, stage.run.hint, [stage.log.events[-1]], 3)
            assert await stage.outcome == "ended"

    in_virtual_time(scene)


async def test_a_hint_while_a_record_is_written_is_not_lost() -> None:
    """The answer brings what came before the record; what came after it has to be read."""

    async def code(ctx: Context) -> None:
        await ctx.gather(ctx.task(task("a")), ctx.step("b", "d", Door()))

    async with driven(code) as stage:
        original = stage.journal.record

        async def record(seen: int, items: Any) -> Any:
            answer = list(await original(seen, items))
            stage.log.deaf = True
            late = stage.log.append(Kind.CANCEL_REQUESTED)
            assert stage.run.writing
            stage.run.hint((), late.seq)
            return [event for event in answer if event.seq < late.seq]

        stage.journal.record = record
        assert await stage.outcome == "ended"
        assert stage.log.kinds[-2:] == ["cancel_requested", "cancelled"]


async def test_a_gap_is_read_before_anything_later_is_handed_over() -> None:
    seen: list[str] = []

    async def branch(ctx: Context, name: str) -> None:
        await ctx.task(task(name))
        seen.append(name)

    async def code(ctx: Context) -> None:
        await ctx.gather(branch(ctx, "a"), branch(ctx, "b"))

    async with driven(code) as stage:
        await stage.until(lambda: len(stage.log.open()) == 2)
        stage.log.deaf = True
        stage.log.append(Kind.TASK_COMPLETED, "b", value=1)
        later = stage.log.append(Kind.TASK_COMPLETED, "a", value=1)
        stage.run.hint([later], later.seq)
        assert await stage.outcome == "ended"
        assert "events" in stage.journal.verbs
    assert seen == ["b", "a"]


# -- real IO outside of steps ------------------------------------------------------------------------------------------


async def test_real_io_outside_a_step_keeps_the_execution() -> None:
    door = asyncio.Event()

    async def code(ctx: Context) -> str:
        await door.wait()
        return await ctx.step("a", "d", gives('"through"'))

    async with driven(code) as stage:
        await asyncio.sleep(0.02)
        assert not stage.outcome.done()
        assert stage.journal.verbs == []
        door.set()
        assert await stage.outcome == "ended"


async def test_a_record_waits_for_code_in_real_io_to_ask_for_it() -> None:
    door = asyncio.Event()

    async def code(ctx: Context) -> str:
        await door.wait()
        return await ctx.step("a", digest("a"), gives('"fresh"'))

    log = MemoryLog()
    log.append(Kind.STEP_RECORDED, "a", digest("a"), value="recorded")
    async with driven(code, log) as stage:
        await asyncio.sleep(0.01)
        door.set()
        assert await stage.outcome == "ended"
        assert stage.log.events[-1].data == {"output": "recorded"}
