"""What happens to a running durable function: cancel, eviction, other code, other names, news from outside."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from durables import Stage, again, durably, to_the_end
from memory_journal import MemoryLog
from perdure.core.events import Event, Kind
from perdure.flow import (
    CompensationFailed,
    TokenFailed,
    now,
    patched,
    random,
    saga,
    signal,
    sleep,
    sleep_until,
    step,
    token,
    uuid,
)
from perdure.flow.context import Evicted
from perdure.flow.driver import Run


async def note(what: str) -> str:
    return what


async def fail(what: str) -> None:
    raise ValueError(what)


# -- cancel ------------------------------------------------------------------------------------------------------------


async def cleans_up() -> str:
    try:
        await sleep(days=1)
    finally:
        await step(note, "closed", name="close")
        await sleep(hours=1)
        await step(note, "told", name="tell")
    return "not reached"


def _cancelled(function: Any, *then: Any, **options: Any) -> Stage:
    async def play() -> Stage:
        stage = Stage(function, **options)
        await stage.parked()
        stage.log.append(Kind.CANCEL_REQUESTED)
        await stage.parked()
        for act in then:
            act(stage)
            await stage.parked()
        return stage

    return durably(play)


def test_cleanup_after_a_cancel_is_recorded_and_run_again() -> None:
    stage = _cancelled(cleans_up, lambda stage: stage.answer("sleep/2"))
    assert stage.last.kind is Kind.CANCELLED
    assert stage.asked == ["sleep", ":cleanup", "close", "sleep/2", "tell"]
    other = again(stage, cleans_up)
    assert [event.kind for event in other.log.events] == [event.kind for event in stage.log.events]


def test_cleanup_ends_with_its_time() -> None:
    stage = _cancelled(cleans_up, lambda stage: stage.answer(":cleanup"), cleanup_ms=5_000)
    assert stage.last.kind is Kind.CANCELLED
    assert "tell" not in stage.asked
    assert next(event.data["due_ms"] for event in stage.log.events if event.address == ":cleanup") == 5_000


def test_a_second_cancel_skips_the_cleanup() -> None:
    stage = _cancelled(cleans_up, lambda stage: stage.log.append(Kind.CANCEL_REQUESTED))
    assert stage.last.kind is Kind.CANCELLED
    assert "tell" not in stage.asked


def test_a_function_without_cleanup_sets_no_deadline() -> None:
    async def main() -> None:
        await sleep(days=1)

    stage = _cancelled(main)
    assert stage.log.kinds == ["started", "timer_set", "cancel_requested", "cancelled"]


def test_a_cancel_reaches_branches_in_order() -> None:
    async def branch(name: str) -> None:
        try:
            await sleep(days=1)
        finally:
            await step(note, name)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(branch("a"))
            group.create_task(branch("b"))

    stage = _cancelled(main)
    assert stage.last.kind is Kind.CANCELLED
    assert {"branch/note", "branch/2/note"} <= {*stage.asked}
    assert again(stage, main).log.kinds == stage.log.kinds


def test_a_function_that_cancels_itself_failed() -> None:
    async def main() -> None:
        raise asyncio.CancelledError

    assert to_the_end(main).last.data["code"] == "cancelled_itself"


# -- saga --------------------------------------------------------------------------------------------------------------


async def trip(fails: str) -> None:
    async with saga() as undo:
        for what in ("hotel", "flight"):
            await step(note, what, name=f"book {what}")
            undo.on_failure(fail if what == fails else note, what, name=f"cancel {what}", retries=0)
        await step(fail, "card declined", retries=0)


def test_compensations_run_in_reverse_and_once() -> None:
    stage = to_the_end(trip, "")
    assert stage.asked == ["book hotel", "book flight", "fail", "cancel flight", "cancel hotel"]
    assert "card declined" in stage.last.data["error"]
    assert again(stage, trip, input="").log.kinds == stage.log.kinds


def test_a_compensation_that_fails_keeps_no_other_from_running() -> None:
    stage = to_the_end(trip, "flight")
    assert stage.asked[-1] == "cancel hotel"
    assert stage.last.data["code"] == CompensationFailed.default_code


# -- eviction ----------------------------------------------------------------------------------------------------------


def test_an_evicted_run_writes_nothing() -> None:
    seen: list[str] = []

    async def main() -> None:
        try:
            await sleep(days=1)
        except asyncio.CancelledError:
            seen.append("cancelled")
        try:
            await step(note, "x")
        except Evicted:
            seen.append("evicted")
            raise

    async def play() -> Stage:
        stage = Stage(main)
        await stage.parked()
        assert isinstance(stage.run, Run)
        await stage.run.close()
        return stage

    stage = durably(play)
    assert seen == ["cancelled", "evicted"]
    assert stage.asked == ["sleep"]


def test_a_run_that_holds_on_is_left_behind() -> None:
    refused: list[str] = []

    async def main() -> None:
        while len(refused) < 9:
            try:
                await asyncio.sleep(1e6)
            except asyncio.CancelledError:
                refused.append("not yet")

    async def play() -> None:
        stage = Stage(main)
        stage.claim()
        await asyncio.sleep(1)
        await stage.drop()
        [left] = [task for task in asyncio.all_tasks() if task.get_name() == "exe_1"]
        while not left.done():
            left.cancel()
            await asyncio.sleep(0)

    durably(play)
    assert len(refused) == 9


# -- real IO -----------------------------------------------------------------------------------------------------------


def test_real_io_outside_a_step_keeps_it_and_is_named() -> None:
    told: list[list[str]] = []

    async def main() -> str:
        await asyncio.sleep(12)
        return "done"

    async def play() -> Stage:
        stage = Stage(main)
        stage.claim()
        assert stage.run is not None
        stage.run.on_real_io = told.append
        await stage.parked()
        return stage

    stage = durably(play)
    assert stage.output == "done"
    assert len(told) == 3
    assert told[2] == []
    assert "test_durable_life.py" in told[0][0]
    assert "in main" in told[0][0]


# -- time and chance ---------------------------------------------------------------------------------------------------


def test_time_and_chance_come_out_the_same() -> None:
    async def draw() -> Any:
        return [random(), uuid()]

    async def main() -> Any:
        return [(await now()).isoformat(), random(), random(), uuid(), await asyncio.gather(draw(), draw())]

    stage = to_the_end(main)
    assert again(stage, main, 1).output == stage.output
    numbers = [stage.output[1], stage.output[2], stage.output[4][0][0], stage.output[4][1][0]]
    assert len(set(numbers)) == 4
    assert all(0 <= number < 1 for number in numbers)
    assert stage.output[3][14] == "4"


def test_sleeping_until_a_moment_is_reckoned_from_the_recorded_now() -> None:
    async def main() -> None:
        await sleep_until(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=2))
        await sleep_until(datetime(1969, 1, 1, tzinfo=UTC))

    stage = to_the_end(main)
    assert [event.data["due_ms"] for event in stage.log.events if event.kind is Kind.TIMER_SET] == [7_200_000, 0]


# -- signals and tokens ------------------------------------------------------------------------------------------------


def test_a_wait_takes_the_oldest_signal_that_nobody_took() -> None:
    async def main() -> Any:
        first = await signal("go")
        await sleep(1)
        return [first, await signal("go"), await signal("other"), await signal("go")]

    async def play() -> Stage:
        stage = Stage(main)
        await stage.parked()
        for value in (1, 2):
            stage.log.append(Kind.SIGNAL, name="go", value=value)
        stage.log.append(Kind.SIGNAL, name="other", value="o")
        await stage.parked()
        stage.answer("sleep")
        await stage.parked()
        stage.log.append(Kind.SIGNAL, name="go", value=3)
        await stage.parked()
        return stage

    stage = durably(play)
    assert stage.output == [1, 2, "o", 3]
    assert again(stage, main).output == stage.output


def test_a_token_may_fail_or_expire_and_be_awaited_by_many() -> None:
    async def wait(name: str) -> str:
        opened = await token(name, timeout=timedelta(days=1))
        assert opened.url == f"https://example.test/v1/tokens/{opened.secret}"

        async def look() -> str:
            try:
                return await opened
            except (TokenFailed, TimeoutError) as error:
                return f"{type(error).__name__}: {error}"

        return " ".join(await asyncio.gather(look(), look()))

    async def main() -> Any:
        return await asyncio.gather(wait("a"), wait("b"), wait("c"))

    async def play() -> Stage:
        stage = Stage(main)
        await stage.parked()
        stage.answer("wait/3/token c", decision="complete", value="yes")
        stage.answer("wait/token a", decision="fail", error="no")
        stage.answer("wait/2/token b", decision="expire")
        await stage.parked()
        return stage

    stage = durably(play)
    once = ["TokenFailed: token 'a' failed: no", "TimeoutError: token 'b' expired", "yes"]
    assert stage.output == [f"{text} {text}" for text in once]
    assert again(stage, main).output == stage.output


# -- other code --------------------------------------------------------------------------------------------------------


async def old() -> Any:
    for n in range(3):
        await step(note, str(n), name="charge")
    await sleep(1)
    return "old"


async def new() -> Any:
    went: list[bool] = []
    for n in range(3):
        went.append(await patched("fees"))
        await step(note, str(n), name="charge")
    await sleep(1)
    went.append(await patched("fees"))
    return went


def test_a_patch_is_not_seen_by_what_went_past_it() -> None:
    assert to_the_end(new).output == [True] * 4
    stage = to_the_end(old)
    past = [event for event in stage.log.events if event.kind is not Kind.COMPLETED]
    for cut, expected in ((2, [False, True, True, True]), (3, [False, False, True, True]), (6, [False] * 3 + [True])):
        stage.log = MemoryLog([*past[:cut], Event(0, Kind.MESSAGE, "", "", {}, 0)][:cut] + past[len(past) :])
        other = again(stage, new, cut)
        assert other.output == expected
        assert again(other, new).output == expected


def test_other_code_is_told_from_the_log_and_sticks() -> None:
    async def renamed() -> Any:
        for n in range(3):
            await step(note, str(n), name="charge_card")
        await sleep(1)
        return "new"

    stage = to_the_end(old)
    found = again(stage, renamed, 3)
    assert found.last.kind is Kind.STUCK
    assert found.last.data["reason"] == "mismatch"
    assert "event 2 is step_recorded at 'charge'" in found.last.data["message"]
    assert "'charge_card'" in found.last.data["message"]


def test_a_step_that_has_another_name_now_is_mapped() -> None:
    async def renamed() -> Any:
        for n in range(3):
            await step(note, f"{n}!", name="charge_card")
        await sleep(1)
        return "new"

    stage = to_the_end(old)
    log = MemoryLog(stage.log.events[:3])
    log.append(Kind.STEP_MAPPED, old="charge", new="charge_card", by="ann", reason="")
    log.append(Kind.STEP_MAPPED, old="charge/2", new="charge_card/2", by="ann", reason="")
    stage.log = log
    found = again(stage, renamed, len(log.events))
    assert found.output == "new"
    assert found.asked == ["charge", "charge/2", "charge_card/3", "sleep"]
    assert again(found, renamed).output == "new"


def test_a_scope_that_has_another_name_now_is_mapped_with_all_in_it() -> None:
    async def buy(name: str) -> Any:
        return [await step(note, "1"), await (await token("t")), await step(note, "2")]

    async def sell(name: str) -> Any:
        return await buy(name)

    async def before() -> Any:
        return await asyncio.gather(buy("x"))

    async def after() -> Any:
        return await asyncio.gather(sell("x"))

    async def play() -> Stage:
        stage = Stage(before)
        await stage.parked()
        assert stage.run is not None
        await stage.run.close()
        stage.log.append(Kind.STEP_MAPPED, old="buy/", new="sell/", by="ann", reason="")
        other = Stage(after)
        other.log = stage.log
        await other.parked()
        other.answer("buy/token t", decision="complete", value=2)
        await other.parked()
        return other

    stage = durably(play)
    assert stage.output == [["1", 2, "2"]]
    assert stage.asked == ["buy/note", "buy/token t", "buy/note/2"]
    assert again(stage, after).output == stage.output
