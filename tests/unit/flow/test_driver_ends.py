"""How a run is let go of: it ended, it broke, it waits for somebody, or it is somebody else's now."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from driving import Door, drive, driven, gives, run_of, task
from memory_journal import MemoryLog
from perdure.core.codec import digest
from perdure.core.events import Kind
from perdure.errors import InvalidInput, LeaseLost
from perdure.flow import driver
from perdure.flow.context import Context, Evicted, Failed, Paused, Try

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LINGER_SECONDS", 0.001)


@pytest.fixture
def lingering(monkeypatch: pytest.MonkeyPatch, no_lingering: None) -> None:
    """Keep a run that waits from parking before a slow machine comes to what the test does next."""
    monkeypatch.setattr(driver, "LINGER_SECONDS", 60.0)


# -- ends --------------------------------------------------------------------------------------------------------------


async def test_a_message_that_arrives_before_the_end_is_another_turn() -> None:
    async def code(ctx: Context) -> Any:
        heard: list[str] = []
        while not await ctx.finish({"heard": heard}):
            heard += [event.data["text"] for event in ctx.told]
            ctx.told = []
        return None

    async with driven(code) as stage:
        said: list[str] = []

        async def gate(verb: str) -> None:
            if verb == "finish" and len(said) < 2:
                said.append(verb)
                stage.log.append(Kind.MESSAGE, text=str(len(said)))

        stage.journal.gate = gate
        assert await stage.outcome == "ended"
        assert stage.log.events[-1].data == {"output": {"heard": ["1", "2"]}}
    again = MemoryLog(stage.log.events[:-1])
    await drive(code, again)
    assert again.events[-1].data == stage.log.events[-1].data


async def test_a_message_that_came_while_the_answer_was_made_is_another_turn() -> None:
    door = Door()

    async def code(ctx: Context) -> Any:
        await ctx.step("a", "d", door)
        heard: list[str] = []
        while not await ctx.finish({"heard": heard}):
            heard += [event.data["text"] for event in ctx.told]
            ctx.told = []
        return None

    async with driven(code) as stage:
        await door.entered.wait()
        stage.log.append(Kind.MESSAGE, text="wait")
        door.opened.set()
        assert await stage.outcome == "ended"
        assert stage.log.events[-1].data == {"output": {"heard": ["wait"]}}


async def test_news_wait_for_a_message_or_a_stop() -> None:
    async def code(ctx: Context) -> Any:
        await ctx.news()
        first = [event.data["text"] for event in ctx.told]
        ctx.told = []
        await ctx.news()
        return [first, ctx.stop_requested]

    async with driven(code) as stage:
        await stage.outcome
    run, log = run_of(code), MemoryLog()
    assert await run.drive(log.claim(run), log.events) == "parked"
    for kind, facts, outcome in ((Kind.MESSAGE, {"text": "a"}, "parked"), (Kind.STOP_REQUESTED, {}, "ended")):
        log.append(kind, **facts)
        assert await run.drive(log.claim(run), log.events[run.replay.last_seq :]) == outcome
    assert log.events[-1].data == {"output": [["a"], True]}


async def test_a_bug_in_the_code_sticks_and_says_so() -> None:
    async def code(_ctx: Context) -> None:
        raise ZeroDivisionError("by zero")

    log = MemoryLog()
    assert await drive(code, log) == "halted"
    assert log.events[-1].kind is Kind.STUCK
    assert log.events[-1].data == {"reason": "poison", "message": "the agent's loop broke: ZeroDivisionError: by zero"}


async def test_a_bug_in_a_body_sticks_and_names_the_step() -> None:
    async def body(_attempt: Try) -> str:
        raise ZeroDivisionError("by zero")

    async def code(ctx: Context) -> None:
        await ctx.step("turn 1/model", "d", body)

    log = MemoryLog()
    assert await drive(code, log) == "halted"
    assert log.events[-1].data["message"] == "step 'turn 1/model' broke: ZeroDivisionError: by zero"


async def test_a_body_that_is_cancelled_from_within_sticks_instead_of_waiting_for_ever() -> None:
    async def body(_attempt: Try) -> str:
        raise asyncio.CancelledError("a scope leaked")

    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", body)

    log = MemoryLog()
    assert await drive(code, log) == "halted"
    assert "step 'a' was cancelled from within" in log.events[-1].data["message"]


async def test_a_body_that_needs_somebody_pauses_with_its_words() -> None:
    async def body(_attempt: Try) -> str:
        raise Paused("key", "set OPENAI_API_KEY")

    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", body)

    log = MemoryLog()
    assert await drive(code, log) == "halted"
    assert (log.events[-1].kind, log.events[-1].data["reason"]) == (Kind.PAUSED, "key")


async def test_code_that_fails_ends_with_its_code_and_words() -> None:
    async def code(_ctx: Context) -> None:
        raise Failed("limit_exceeded", "too much")

    log = MemoryLog()
    assert await drive(code, log) == "ended"
    assert log.events[-1].kind is Kind.FAILED
    assert log.events[-1].data == {"error": "too much", "code": "limit_exceeded"}


@pytest.mark.parametrize(
    "recorded",
    [
        (Kind.STEP_RECORDED, "other", digest("other")),
        (Kind.STEP_RECORDED, "a", "changed"),
        (Kind.TIMER_SET, "a", "d"),
        (Kind.TASK_COMPLETED, "nothing", ""),
    ],
)
async def test_a_log_that_the_code_does_not_fit_sticks_and_quotes_both(recorded: tuple[Kind, str, str]) -> None:
    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", gives("1"))

    log = MemoryLog()
    log.append(*recorded)
    assert await drive(code, log) == "halted"
    assert log.events[-1].data["reason"] == "mismatch"
    assert f"{recorded[0]} at {recorded[1]!r}" in log.events[-1].data["message"]


async def test_an_address_asked_for_twice_sticks() -> None:
    async def code(ctx: Context) -> None:
        await ctx.gather(ctx.step("a", "d", gives("1")), ctx.step("a", "d", gives("1")))

    log = MemoryLog()
    assert await drive(code, log) == "halted"
    assert log.events[-1].data["reason"] == "mismatch"


async def test_what_the_log_refuses_sticks() -> None:
    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", gives("1"))
        await ctx.finish("x" * 9_000_000)

    log = MemoryLog()
    assert await drive(code, log) == "halted"
    assert "8,388,608" in log.events[-1].data["message"]


# -- losing it ---------------------------------------------------------------------------------------------------------


async def test_a_run_whose_lease_is_lost_writes_nothing_more() -> None:
    door = Door()

    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", door)

    async with driven(code) as stage:
        await door.entered.wait()
        stage.log.take_over()
        door.opened.set()
        assert await stage.outcome == "lost"
        assert stage.log.kinds == ["started", "taken_over"]


async def test_an_interrupted_run_ends_at_once() -> None:
    door = Door()

    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", door)

    async with driven(code) as stage:
        await door.entered.wait()
        stage.run.interrupt(LeaseLost("gone"))
        assert await stage.outcome == "lost"
        assert stage.log.kinds == ["started"]


async def test_an_evicted_run_writes_nothing_and_its_code_cannot_go_on() -> None:
    seen: list[str] = []

    async def code(ctx: Context) -> None:
        try:
            await ctx.task(task("a"))
        except asyncio.CancelledError:
            try:
                await ctx.step("cleanup", "d", gives("1"))
            except Evicted:
                seen.append("evicted")
                raise

    run, log = run_of(code), MemoryLog()
    assert await run.drive(log.claim(run), log.events) == "parked"
    await run.close()
    assert seen == ["evicted"]
    assert log.kinds == ["started", "task_scheduled"]


async def test_a_run_that_was_never_driven_closes_without_a_trace(recwarn: pytest.WarningsRecorder) -> None:
    async def code(ctx: Context) -> None:
        await ctx.news()

    await run_of(code).close()
    assert not recwarn.list


@pytest.mark.usefixtures("lingering")
async def test_a_limit_that_is_passed_fails_it_whatever_it_does() -> None:
    async def code(ctx: Context) -> None:
        await ctx.task(task("a"))

    async with driven(code) as stage:
        await stage.until(lambda: stage.log.open())
        stage.run.interrupt(Failed("limit_exceeded", "too long"))
        assert await stage.outcome == "ended"
        assert stage.log.events[-1].data == {"error": "too long", "code": "limit_exceeded"}


async def test_a_limit_that_is_passed_while_paused_lets_go_and_ends_it_later() -> None:
    door = Door()

    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", door)

    async with driven(code) as stage:
        await door.entered.wait()
        stage.log.append(Kind.PAUSED, reason="user")
        stage.run.interrupt(Failed("limit_exceeded", "too long"))
        assert await stage.outcome == "halted"
        assert stage.log.run is None, "nobody holds it"
        assert stage.log.events[-1].kind is Kind.PAUSED


@pytest.mark.usefixtures("lingering")
async def test_a_limit_that_is_passed_looks_at_the_news_first() -> None:
    async def code(ctx: Context) -> None:
        await ctx.task(task("a"))

    async with driven(code) as stage:
        await stage.until(lambda: stage.log.open())

        async def gate(verb: str) -> None:
            if verb == "finish" and "message" not in stage.log.kinds:
                stage.log.append(Kind.MESSAGE, text="wait")

        stage.journal.gate = gate
        stage.run.interrupt(Failed("limit_exceeded", "too long"))
        assert await stage.outcome == "ended"
        assert stage.log.kinds[-2:] == ["message", "failed"]


@pytest.mark.usefixtures("lingering")
@pytest.mark.parametrize("verb", ["finish", "halt"])
async def test_whoever_lost_it_on_the_way_out_says_so(verb: str) -> None:
    async def code(ctx: Context) -> None:
        await ctx.task(task("a"))
        raise ZeroDivisionError

    async with driven(code) as stage:
        await stage.until(lambda: stage.log.open())

        async def gate(asked: str) -> None:
            if asked == verb:
                stage.log.take_over()

        stage.journal.gate = gate
        if verb == "finish":
            stage.run.interrupt(Failed("limit_exceeded", "too long"))
        else:
            stage.log.append(Kind.TASK_COMPLETED, "a", value=1)
        assert await stage.outcome == "lost"
        assert stage.log.kinds[-1] == "taken_over"


@pytest.mark.usefixtures("lingering")
@pytest.mark.parametrize(
    ("reason", "outcome"), [(LeaseLost("gone"), "lost"), (Failed("limit_exceeded", "too long"), "ended")]
)
async def test_what_interrupts_a_run_while_it_reads_its_log_is_not_slept_on(reason: Any, outcome: str) -> None:
    async def code(ctx: Context) -> None:
        await ctx.task(task("a"))

    async with driven(code) as stage:
        await stage.until(lambda: stage.log.open())

        async def gate(verb: str) -> None:
            if verb == "events":
                stage.run.interrupt(reason)

        stage.journal.gate = gate
        stage.log.deaf = True
        stage.run.hint((), stage.log.append(Kind.TASK_BEGUN, "a").seq)
        assert await asyncio.wait_for(stage.outcome, 20) == outcome


async def test_an_append_that_the_log_refuses_for_good_sticks() -> None:
    async def code(ctx: Context) -> None:
        await ctx.task(task("a"))

    async with driven(code) as stage:

        async def gate(verb: str) -> None:
            if verb == "record":
                raise InvalidInput("its address holds half a letter", code="unstorable")

        stage.journal.gate = gate
        assert await stage.outcome == "halted"
        assert stage.log.events[-1].data["message"] == "what it recorded was refused: its address holds half a letter"


async def test_an_interrupt_that_came_too_late_does_not_reach_the_next_drive() -> None:
    async def code(ctx: Context) -> None:
        await ctx.task(task("a"))

    run, log = run_of(code), MemoryLog()
    assert await run.drive(log.claim(run), log.events) == "parked"
    run.interrupt(LeaseLost("of the drive before"))
    log.append(Kind.TASK_COMPLETED, "a", value=1)
    assert await run.drive(log.claim(run), log.events[run.replay.last_seq :]) == "ended"


async def test_a_closed_run_is_gone_at_once_without_a_collection() -> None:
    """Otherwise each ended execution would wait, with all it holds, for the collector to come round."""

    async def code(ctx: Context) -> None:
        await ctx.step("a", "d", gives("1"))
        await ctx.gather(ctx.task(task("b")), ctx.step("c", "d", gives("2")))

    gc.collect()
    gc.disable()
    try:
        run, log = run_of(code), MemoryLog()
        assert await run.drive(log.claim(run), log.events) == "parked"
        log.append(Kind.TASK_COMPLETED, "b", value=1)
        assert await run.drive(log.claim(run), log.events[run.replay.last_seq :]) == "ended"
        await run.close()
        gone = weakref.ref(run)
        log.run = None
        del run
        assert gone() is None
    finally:
        gc.enable()
