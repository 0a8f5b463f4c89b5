"""Races and time-outs of users' functions: who wins is the log's order, live and run again; bare forms say so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from durables import Stage, again, durably, to_the_end
from perdure.core.events import Kind
from perdure.flow import completed, first, gather_at_most, sleep, step, timeout, token


async def one() -> int:
    return 1


def test_the_branch_whose_event_comes_first_wins() -> None:
    async def main() -> Any:
        yes, no = await token("yes"), await token("no")
        which, value = await first(yes, no)
        return [which, value, await step(one)]

    async def play() -> Stage:
        stage = Stage(main)
        assert await stage.parked() == "parked"
        stage.answer("token no", decision="complete", value="n")
        stage.answer("token yes", decision="complete", value="y")
        await stage.parked()
        return stage

    stage = durably(play)
    assert stage.output == [1, "n", 1]
    assert again(stage, main).output == stage.output


def test_losers_may_clean_up_with_steps() -> None:
    async def loser() -> None:
        try:
            await sleep(days=1)
        finally:
            await step(one, name="cleaned")

    async def main() -> Any:
        return (await first(loser(), step(one))).which

    stage = to_the_end(main)
    assert stage.output == 1
    assert stage.asked == ["loser/sleep", "step/one", "first", "loser/cleaned"]
    assert again(stage, main).output == 1


def test_completed_gives_branches_as_they_end() -> None:
    async def main() -> Any:
        tokens = [await token(name) for name in "abc"]
        return [(done.index, done.result()) async for done in completed(*tokens)]

    async def play() -> Stage:
        stage = Stage(main)
        await stage.parked()
        for name in "cab":
            stage.answer(f"token {name}", decision="complete", value=name)
        await stage.parked()
        return stage

    stage = durably(play)
    assert stage.output == [[2, "c"], [0, "a"], [1, "b"]]
    assert again(stage, main).output == stage.output


def test_a_timeout_cancels_and_raises() -> None:
    async def main() -> Any:
        wait = await token("t")
        try:
            return await timeout(wait, hours=1)
        except TimeoutError:
            return [await timeout(wait, 5), "late"]

    async def play() -> Stage:
        stage = Stage(main)
        await stage.parked()
        stage.answer("timeout")
        await stage.parked()
        stage.answer("token t", decision="complete", value=3)
        await stage.parked()
        return stage

    stage = durably(play)
    assert stage.output == [3, "late"]
    assert again(stage, main).output == stage.output


def test_a_step_that_loses_is_stopped_and_not_recorded() -> None:
    stopped: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            stopped.append("stopped")
            raise

    async def main() -> Any:
        with pytest.raises(TimeoutError):
            await timeout(step(endless), 1)
        return "ok"

    async def play() -> Stage:
        stage = Stage(main)
        stage.claim()
        await stage.until(lambda: "timeout" in stage.log.open())
        stage.answer("timeout")
        await stage.parked()
        return stage

    stage = durably(play)
    assert stage.output == "ok"
    assert stopped == ["stopped"]
    assert stage.asked == ["timeout", "first"]
    assert again(stage, main).output == "ok"
    assert stopped == ["stopped"]


def test_bounded_fan_out_begins_in_order_and_keeps_the_bound() -> None:
    running = peak = 0

    async def body(n: int) -> int:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(1 / (n + 1))
        running -= 1
        return n

    async def main() -> Any:
        return await gather_at_most(3, *(step(body, n) for n in range(10)))

    stage = to_the_end(main)
    assert stage.output == list(range(10))
    assert peak == 3
    assert again(stage, main).output == stage.output


def test_bounded_fan_out_stops_at_the_first_error() -> None:
    async def bad() -> None:
        raise ValueError("no")

    async def main() -> Any:
        await gather_at_most(1, step(bad, retries=0), step(one))

    stage = to_the_end(main)
    assert stage.last.kind is Kind.FAILED
    assert stage.asked == ["step/bad"]


async def _in_wait_for() -> None:
    await asyncio.wait_for(sleep(days=1), 1)


async def _in_timeout() -> None:
    async with asyncio.timeout(1):
        await sleep(days=1)


async def _in_wait() -> None:
    await asyncio.wait([asyncio.create_task(sleep(days=1))], timeout=1)


async def _in_as_completed() -> None:
    for done in asyncio.as_completed([sleep(days=1)]):
        await done


async def _in_event() -> None:
    await asyncio.Event().wait()


async def _in_queue() -> None:
    await asyncio.Queue[int]().get()


async def _in_lock() -> None:
    lock = asyncio.Lock()
    await lock.acquire()
    async with lock:
        pass


async def _in_semaphore() -> None:
    await asyncio.Semaphore(0).acquire()


BARE = [
    (_in_wait_for, "timeout"),
    (_in_timeout, "timeout"),
    (_in_wait, "first"),
    (_in_as_completed, "completed"),
    (_in_event, "first"),
    (_in_queue, "completed"),
    (_in_lock, "first"),
    (_in_semaphore, "first"),
]


@pytest.mark.parametrize(("construct", "ours"), BARE, ids=lambda one: getattr(one, "__name__", ""))
def test_bare_constructs_raise_an_error_that_names_ours(construct: Any, ours: str) -> None:
    async def main() -> None:
        await construct()

    async def play() -> Stage:
        stage = Stage(main)
        stage.claim()
        await stage.until(lambda: stage.last.kind is Kind.FAILED)
        return stage

    stage = durably(play)
    assert stage.last.data["code"] == "bare_construct"
    assert f"`{ours}" in stage.last.data["error"]


def test_returning_with_live_tasks_is_an_error() -> None:
    async def main() -> int:
        task = asyncio.create_task(sleep(days=1))
        await step(one)
        assert not task.done()
        return 1

    stage = to_the_end(main)
    assert stage.last.data["code"] == "live_tasks"
