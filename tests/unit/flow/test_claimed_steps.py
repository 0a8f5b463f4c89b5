"""`at_most_once` steps of users' functions: the body starts once or never; an unknown outcome waits for a ruling."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from durables import Stage, again, durably, to_the_end
from perdure.core.events import Kind
from perdure.flow import StepFailed, step, this_step, timeout
from perdure.flow.steps import DeliveryName

ran: list[str] = []


async def charge(cents: int) -> str:
    ran.append(this_step().key)
    return f"charged {cents}"


async def main() -> Any:
    try:
        return await step(charge, 5, delivery="at_most_once")
    except StepFailed as failure:
        return failure.message


def test_the_claim_is_in_the_log_before_the_body_starts() -> None:
    ran.clear()
    stage = to_the_end(main)
    assert stage.log.kinds == ["started", "task_scheduled", "task_begun", "task_completed", "completed"]
    assert stage.output == "charged 5"
    assert again(stage, main).output == "charged 5"
    assert ran == ["exe_1/charge"]


def _taken_over(ruling: dict[str, Any] | None) -> Stage:
    """Have its process die in the body, and another go on."""
    started = asyncio.Event()

    async def charge_slowly(cents: int) -> str:
        ran.append("slowly")
        if len(ran) == 1:
            started.set()
            await asyncio.get_running_loop().create_future()
        return f"charged {cents}"

    async def main() -> Any:
        try:
            return await step(charge_slowly, 5, delivery="at_most_once")
        except StepFailed as failure:
            return failure.message

    async def play() -> Stage:
        stage = Stage(main)
        stage.claim()
        await started.wait()
        await stage.drop()
        assert await stage.parked() == "parked"
        assert stage.last.kind is Kind.TASK_UNCERTAIN
        if ruling is not None:
            stage.log.append(Kind.EFFECT_RULED, "charge_slowly", **ruling)
            await stage.parked()
        return stage

    ran.clear()
    return durably(play)


def test_a_body_that_died_is_never_started_again_by_itself() -> None:
    stage = _taken_over(None)
    assert stage.last.kind is Kind.TASK_UNCERTAIN
    assert ran == ["slowly"]


def test_a_ruling_that_it_happened_is_its_value() -> None:
    stage = _taken_over({"ruling": "happened", "value": "seen on the bank's page", "by": "ann"})
    assert stage.output == "seen on the bank's page"
    assert ran == ["slowly"]


def test_a_ruling_that_gives_it_up_is_its_failure() -> None:
    stage = _taken_over({"ruling": "give_up", "value": None, "by": "ann"})
    assert stage.output == "step 'charge_slowly' failed: given up by ann"
    assert ran == ["slowly"]


def test_a_body_that_raises_or_takes_too_long_is_uncertain() -> None:
    async def breaks() -> None:
        raise ValueError("after it was sent")

    async def main() -> Any:
        return await step(breaks, delivery="at_most_once")

    async def play() -> Stage:
        stage = Stage(main)
        assert await stage.parked() == "parked"
        return stage

    stage = durably(play)
    assert stage.last.kind is Kind.TASK_UNCERTAIN


def test_a_claim_that_is_waited_for_no_longer_keeps_the_execution_from_ending() -> None:
    async def hangs() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> str:
        try:
            await timeout(step(hangs, delivery="at_most_once"), 5)
        except TimeoutError:
            return "late"
        return "never"

    async def play() -> Stage:
        stage = Stage(main)
        stage.claim()
        await stage.until(lambda: "timeout" in stage.log.open())
        stage.answer("timeout")
        assert await stage.parked() == "parked"
        assert stage.last.kind is Kind.TASK_UNCERTAIN
        stage.log.append(Kind.EFFECT_RULED, "step/hangs", ruling="give_up", by="ann", value=None)
        await stage.parked()
        return stage

    stage = durably(play)
    assert stage.output == "late"


@pytest.mark.parametrize("delivery", ["at_most_once", "at_least_once"])
def test_what_a_step_came_to_is_recorded_though_one_beside_it_sticks_the_run(delivery: DeliveryName) -> None:
    """Whoever goes on with it would find a claim of another life, and take what is known for lost; or act again."""
    charged = asyncio.Event()

    async def charge() -> str:
        charged.set()
        return "charged"

    async def breaks() -> Any:
        await charged.wait()
        return object

    async def main() -> Any:
        return await asyncio.gather(step(charge, delivery=delivery), step(breaks))

    async def play() -> Stage:
        stage = Stage(main)
        assert await stage.parked() == "halted"
        return stage

    stage = durably(play)
    assert stage.last.kind is Kind.STUCK
    told = [event for event in stage.log.events if event.address.endswith("charge")]
    assert told[-1].kind in (Kind.TASK_COMPLETED, Kind.STEP_RECORDED)
    assert told[-1].data["value"] == "charged"


def test_a_claim_whose_body_runs_when_the_run_sticks_is_uncertain_at_once() -> None:
    begun = asyncio.Event()

    async def charge() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    async def breaks() -> Any:
        await begun.wait()
        return object

    async def main() -> Any:
        return await asyncio.gather(step(charge, delivery="at_most_once"), step(breaks))

    async def play() -> Stage:
        stage = Stage(main)
        assert await stage.parked() == "halted"
        return stage

    kinds = durably(play).log.kinds
    assert kinds[-2:] == ["task_uncertain", "stuck"]


def test_a_value_that_cannot_be_stored_is_kept_as_text() -> None:
    async def odd() -> Any:
        return object

    async def main() -> Any:
        return await step(odd, delivery="at_most_once")

    assert to_the_end(main).output == {"repr": "<class 'object'>"}
