"""Running a log against code, read-only: changed code is told from code that goes on, and no body runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from durables import Stage, durably
from perdure.core.events import Event
from perdure.flow import signal, sleep, step, token
from perdure.flow.durable import DurableDefinition
from perdure.system import SystemClock, SystemRandom
from perdure.worker.rerun import rerun

ran: list[str] = []


async def act(name: str) -> str:
    ran.append(name)
    return name


async def began() -> Any:
    await step(act, "a", name="a")
    await token("yes")
    await sleep(3)
    await step(act, "b", name="b")
    return await signal("go")


async def renamed() -> Any:
    await step(act, "a", name="other")
    return await signal("go")


async def fewer() -> Any:
    await step(act, "a", name="a")


async def longer() -> Any:
    await began()
    await step(act, "c", name="c")


async def elsewhere() -> Any:
    await asyncio.get_running_loop().create_future()


async def log_of(function: Callable[..., Any], count: int) -> list[Event]:
    stage = Stage(function)
    stage.claim()
    while len(stage.log.events) < count:  # noqa: ASYNC110 - the log has no event
        await asyncio.sleep(0)
    assert stage.outcome is not None
    stage.outcome.cancel()
    await asyncio.gather(stage.outcome, return_exceptions=True)
    assert stage.run is not None
    await stage.run.close()
    first, *others = stage.log.events
    return [replace(first, data={**first.data, "input": None}), *others]


def why(function: Callable[..., Any], count: int = 3) -> str | None:
    async def check() -> str | None:
        log = await log_of(began, count)
        ran.clear()
        return await rerun(
            DurableDefinition(name="x", function=function, build="b2"), log, SystemClock(), SystemRandom()
        )

    return durably(check)


def test_the_same_code_goes_with_its_log_and_runs_no_body() -> None:
    assert why(began) is None
    assert ran == []


def test_code_that_does_more_behind_the_log_goes_with_it() -> None:
    assert why(longer) is None


def test_a_step_of_another_name_is_told() -> None:
    assert "'a'" in (why(renamed) or "")
    assert ran == []


def test_code_that_ends_before_its_log_is_told() -> None:
    assert "does not ask for it" in (why(fewer) or "")


def test_code_that_waits_for_the_world_outside_a_step_is_told() -> None:
    assert "outside a step" in (why(elsewhere) or "")
