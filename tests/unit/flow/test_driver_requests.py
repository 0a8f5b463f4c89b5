"""What people ask of an execution while it is driven: pause, resume, cancel, stop."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from driving import Door, drive, driven, gives, run_of, task
from memory_journal import MemoryJournal, MemoryLog
from perdure.core.codec import digest
from perdure.core.events import Event, Kind
from perdure.flow import driver
from perdure.flow.context import Context, Failed, Try

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LINGER_SECONDS", 0.001)


# -- pause and resume --------------------------------------------------------------------------------------------------


async def test_a_pause_records_what_is_in_flight_and_starts_nothing_more() -> None:
    door = Door()

    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", door)
        await ctx.step("b", "d", gives("2"))

    async with driven(code) as stage:
        await door.entered.wait()
        stage.log.append(Kind.PAUSED, reason="user")
        door.opened.set()
        assert await stage.outcome == "parked"
        assert stage.log.kinds == ["started", "paused", "step_recorded"]


async def test_a_resume_before_it_has_let_go_goes_on_under_the_same_claim() -> None:
    door = Door()

    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", door)
        await ctx.step("b", "d", gives("2"))

    async with driven(code) as stage:
        await door.entered.wait()
        stage.log.append(Kind.PAUSED, reason="user")
        await asyncio.sleep(0)
        stage.log.append(Kind.RESUMED)
        door.opened.set()
        assert await stage.outcome == "ended"
        assert stage.log.kinds == ["started", "paused", "resumed", "step_recorded", "step_recorded", "completed"]


async def test_a_resumed_run_goes_on_where_it_was() -> None:
    ran: list[Try] = []

    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", gives("1", ran))
        await ctx.task(task("b"))
        await ctx.step("c", "d", gives("2", ran))

    run, log = run_of(code), MemoryLog()
    assert await run.drive(log.claim(run), log.events) == "parked"
    log.append(Kind.PAUSED, reason="user")
    log.append(Kind.TASK_COMPLETED, "b", value=1)
    log.append(Kind.RESUMED)
    assert await run.drive(log.claim(run), log.events[run.replay.last_seq :]) == "ended"
    assert [attempt.key for attempt in ran] == ["exe_1/a", "exe_1/c"]


async def test_a_log_that_ends_paused_is_parked_without_starting_anything() -> None:
    ran: list[Try] = []

    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", gives("1", ran))
        await ctx.step("b", "d", gives("2", ran))

    log = MemoryLog()
    log.append(Kind.STEP_RECORDED, "a", "d", value=1)
    log.append(Kind.PAUSED, reason="user")
    assert await drive(code, log) == "parked"
    assert ran == []


async def test_code_that_returns_while_paused_ends_after_the_resume() -> None:
    async def code(ctx: Context) -> str:
        await ctx.task(task("a"))
        return "done"

    run, log = run_of(code), MemoryLog()
    assert await run.drive(log.claim(run), log.events) == "parked"
    log.append(Kind.TASK_COMPLETED, "a", value=1)
    async with driven(code, log, run) as stage:

        async def gate(verb: str) -> None:
            if verb == "finish" and not log.still:
                log.append(Kind.PAUSED, reason="user")

        stage.journal.gate = gate
        assert await stage.outcome == "parked"
    log = MemoryLog(log.events)
    log.append(Kind.RESUMED)
    assert await drive(code, log) == "ended"
    assert log.events[-1].data == {"output": "done"}


# -- cancel ------------------------------------------------------------------------------------------------------------


async def test_a_cancel_reaches_the_code_and_the_body_that_runs() -> None:
    door = Door()
    seen: list[str] = []

    async def code(ctx: Context) -> None:
        try:
            await ctx.step("a", "d", door)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async with driven(code) as stage:
        await door.entered.wait()
        stage.log.append(Kind.CANCEL_REQUESTED)
        assert await stage.outcome == "ended"
        assert (door.cancelled, seen) == (True, ["cancelled"])
        assert stage.log.kinds == ["started", "cancel_requested", "cancelled"]


async def test_a_cancel_comes_in_its_turn() -> None:
    """What was answered before it is seen before it, live and on a re-run."""
    seen: list[str] = []

    async def code(ctx: Context) -> None:
        try:
            await ctx.task(task("a"))
            seen.append("a")
            await ctx.task(task("b"))
            seen.append("b")
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async with driven(code) as stage:
        await stage.until(lambda: stage.log.open())
        stage.log.deaf = True
        stage.log.append(Kind.TASK_COMPLETED, "a", value=1)
        last = stage.log.append(Kind.CANCEL_REQUESTED)
        stage.run.hint((), last.seq)
        assert await stage.outcome == "ended"
        assert "b" not in {event.address for event in stage.log.events}
    live, seen = seen, []
    await drive(code, MemoryLog(stage.log.events[:-1]))
    assert seen == live == ["a", "cancelled"]


async def test_a_cancel_reaches_every_branch() -> None:
    seen: list[str] = []

    async def branch(ctx: Context, name: str) -> None:
        try:
            await ctx.gather(ctx.task(task(name)), ctx.task(task(name + "2")))
        except asyncio.CancelledError:
            seen.append(name)
            raise

    async def code(ctx: Context) -> None:
        await ctx.gather(branch(ctx, "a"), branch(ctx, "b"))

    async with driven(code) as stage:
        await stage.until(lambda: len(stage.log.open()) == 4)
        stage.log.append(Kind.TASK_COMPLETED, "a", value=1)
        stage.log.append(Kind.CANCEL_REQUESTED)
        assert await stage.outcome == "ended"
        assert sorted(seen) == ["a", "b"]
        assert stage.log.events[-1].kind is Kind.CANCELLED


async def test_a_cancelled_execution_waits_for_its_workers_and_then_ends() -> None:
    async def code(ctx: Context) -> None:
        await ctx.task(task("a"))

    run, log = run_of(code), MemoryLog()
    async with driven(code, log, run) as stage:
        await stage.until(lambda: log.open())
        log.held.add("a")
        log.append(Kind.CANCEL_REQUESTED)
        assert await stage.outcome == "parked"
        log.held.clear()
        log.append(Kind.TASK_FAILED, "a", error="cancelled")
        assert await run.drive(log.claim(run), log.events[run.replay.last_seq :]) == "ended"
    assert log.kinds[-3:] == ["cancel_requested", "task_failed", "cancelled"]
    again = MemoryLog(log.events[:-1])
    assert await drive(code, again) == "ended"


async def test_a_cleanup_after_a_cancel_is_recorded() -> None:
    async def code(ctx: Context) -> None:
        try:
            await ctx.task(task("a"))
        except asyncio.CancelledError:
            await ctx.step("cleanup", "d", gives("1"))
            raise

    async with driven(code) as stage:
        await stage.until(lambda: stage.log.open())
        stage.log.append(Kind.CANCEL_REQUESTED)
        assert await stage.outcome == "ended"
        assert stage.log.kinds[-3:] == ["cancel_requested", "step_recorded", "cancelled"]
    again = MemoryLog(stage.log.events[:-1])
    assert await drive(code, again) == "ended"
    assert again.kinds == stage.log.kinds


async def test_a_second_cancel_skips_the_cleanup() -> None:
    door = Door()

    async def code(ctx: Context) -> None:
        try:
            await ctx.task(task("a"))
        except asyncio.CancelledError:
            await ctx.step("cleanup", "d", door)
            raise

    async with driven(code) as stage:
        await stage.until(lambda: stage.log.open())
        stage.log.append(Kind.CANCEL_REQUESTED)
        await door.entered.wait()
        stage.log.append(Kind.CANCEL_REQUESTED)
        assert await stage.outcome == "ended"
        assert stage.log.kinds[-2:] == ["cancel_requested", "cancelled"]


async def test_a_cancel_ends_a_pause() -> None:
    async def code(ctx: Context) -> None:
        await ctx.task(task("a"))

    log = MemoryLog()
    log.append(Kind.PAUSED, reason="user")
    log.append(Kind.CANCEL_REQUESTED)
    assert await drive(code, log) == "ended"
    assert log.events[-1].kind is Kind.CANCELLED


async def test_a_cancel_while_it_ends_wins() -> None:
    async def code(ctx: Context) -> str:
        await ctx.finish("done")
        return "unreached"

    async with driven(code) as stage:

        async def gate(verb: str) -> None:
            if verb == "finish" and not stage.log.cancelling:
                stage.log.append(Kind.CANCEL_REQUESTED)

        stage.journal.gate = gate
        assert await stage.outcome == "ended"
        assert stage.log.events[-1].kind is Kind.CANCELLED


async def test_a_cancel_before_the_code_has_begun_is_a_cancel() -> None:
    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", gives("1"))

    log = MemoryLog()
    log.append(Kind.CANCEL_REQUESTED)
    assert await drive(code, log) == "ended"
    assert log.kinds == ["started", "cancel_requested", "cancelled"]


async def test_a_limit_that_is_passed_under_a_cancel_is_a_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LINGER_SECONDS", 60.0)  # a slow machine is not to park it first

    async def code(ctx: Context) -> None:
        await ctx.task(task("a"))

    async with driven(code) as stage:
        await stage.until(lambda: stage.log.open())
        stage.log.held.add("a")
        stage.log.append(Kind.CANCEL_REQUESTED)
        stage.run.interrupt(Failed("limit_exceeded", "too long"))
        assert await stage.outcome == "halted"
        assert stage.log.run is None
    stage.log.held.clear()
    stage.log.append(Kind.TASK_FAILED, "a", error="cancelled")
    assert await drive(code, stage.log) == "ended"
    assert stage.log.events[-1].kind is Kind.CANCELLED


# -- stop --------------------------------------------------------------------------------------------------------------


async def test_a_stop_is_a_wish_that_the_code_looks_at() -> None:
    async def code(ctx: Context) -> Any:
        await ctx.task(task("a"))
        return ctx.stop_requested

    async with driven(code) as stage:
        await stage.until(lambda: stage.log.open())
        stage.log.append(Kind.STOP_REQUESTED)
        stage.log.append(Kind.TASK_COMPLETED, "a", value=1)
        assert await stage.outcome == "ended"
        assert stage.log.events[-1].data == {"output": True}


async def test_what_it_was_held_for_is_not_slept_through_when_it_ends_while_that_is_heard() -> None:
    """Cancelled twice, it waits for its workers: the last of them may let go between the refused end and the park."""

    async def code(ctx: Context) -> None:
        await ctx.task(task("a"))

    log = MemoryLog()
    log.append(Kind.TASK_SCHEDULED, "a", digest("a"), tool="post")
    log.append(Kind.CANCEL_REQUESTED)
    log.append(Kind.CANCEL_REQUESTED)
    log.held.add("a")
    run = run_of(code)
    log.claim(run)
    assert await run.drive(_LateNews(log, log.fence), log.events) == "ended"
    assert log.ended


class _LateNews(MemoryJournal):
    """What follows a refused end is heard of while the answer is on its way."""

    async def finish(
        self, seen: int, active_ms: int, event: Literal["complete", "fail", "end"], data: str
    ) -> list[Event] | Literal["ended", "held"]:
        answer = await super().finish(seen, active_ms, event, data)
        if answer == "held":
            self._log.held.clear()
            self._log.append(Kind.TASK_FAILED, "a", error="cancelled", code="cancelled")
        return answer
