"""Steps of users' functions: recorded once, addressed by name and place, tried again with the same key."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from durables import again, to_the_end
from perdure import tool
from perdure.core.events import Kind
from perdure.errors import InvalidInput, PermanentError, RetryLater, UserError
from perdure.flow import Retry, StepFailed, named, step, this_step


async def test_a_durable_call_outside_says_so() -> None:
    with pytest.raises(UserError) as refused:
        await step(len, "x")
    assert refused.value.code == "not_durable"


async def double(n: int) -> int:
    return 2 * n


def test_steps_are_recorded_and_never_run_again() -> None:
    ran: list[int] = []

    async def note(n: int) -> dict[str, Any]:
        ran.append(n)
        return {"n": (n, 1.0)}

    async def main() -> Any:
        return [await step(note, 1), await step(note, 2), await step(double, n=4)]

    stage = to_the_end(main)
    assert stage.asked == ["note", "note/2", "double"]
    assert stage.output == [{"n": [1, 1.0]}, {"n": [2, 1.0]}, 8]
    assert again(stage, main).output == stage.output
    assert ran == [1, 2]


def test_what_the_first_run_sees_is_what_a_re_run_decodes() -> None:
    seen: list[Any] = []

    async def pair() -> Any:
        return (1, {"a": (2,)})

    async def main() -> None:
        seen.append(await step(pair))

    again(to_the_end(main), main)
    assert seen == [[1, {"a": [2]}]] * 2


def test_branches_have_scopes_of_their_own() -> None:
    async def buy(what: str) -> int:
        await step(double, 1)
        return await step(double, 2, name=what)

    async def main() -> Any:
        async with asyncio.TaskGroup() as group:
            group.create_task(buy("x"))
            group.create_task(named("second", buy("y")))
        await asyncio.gather(buy("z"), step(double, 3), asyncio.create_task(buy("w")))

    stage = to_the_end(main)
    first = {"buy/double", "buy/x", "second/double", "second/y"}
    assert {*stage.asked} == {*first, "buy/2/double", "buy/2/w", "buy/3/double", "buy/3/z", "step/double"}
    assert [event.kind for event in again(stage, main).log.events] == [event.kind for event in stage.log.events]


def test_tasks_started_in_a_body_do_not_move_addresses() -> None:
    async def aside() -> None: ...

    async def body(tasks: int) -> int:
        await asyncio.gather(*(aside() for _ in range(tasks)))
        return tasks

    async def main() -> None:
        await step(body, 3)
        await asyncio.gather(aside_step())

    async def aside_step() -> None:
        await step(double, 1)

    assert to_the_end(main).asked == ["body", "aside_step/double"]


def test_a_body_is_closed_to_durable_calls() -> None:
    async def body() -> None:
        await step(double, 1)

    async def main() -> None:
        await step(body, retries=0)

    stage = to_the_end(main)
    assert stage.last.kind is Kind.FAILED
    assert stage.last.data["code"] == "inside_step"


def test_every_attempt_has_the_same_key_and_pauses_are_timers() -> None:
    tried: list[tuple[str, int]] = []

    async def fails_twice() -> str:
        tried.append((this_step().key, this_step().attempt))
        if len(tried) < 3:
            raise ValueError("no")
        return "yes"

    async def main() -> str:
        return await step(fails_twice, retries=Retry(pause=timedelta(seconds=1), jitter=0))

    stage = to_the_end(main)
    assert stage.output == "yes"
    assert tried == [("exe_1/fails_twice", 1), ("exe_1/fails_twice", 2), ("exe_1/fails_twice", 3)]
    assert stage.asked == [
        "fails_twice",
        "fails_twice:pause-1",
        "fails_twice:try-2",
        "fails_twice:pause-2",
        "fails_twice:try-3",
    ]
    timers = [event.data["due_ms"] for event in stage.log.events if event.kind is Kind.TIMER_SET]
    assert timers == [1000, 2000]
    assert again(stage, main).output == "yes"
    assert len(tried) == 3


def test_a_failure_is_recorded_and_raised_again() -> None:
    tried: list[int] = []

    async def broken() -> None:
        tried.append(1)
        raise KeyError("k")

    async def main() -> Any:
        try:
            await step(broken, retries=1)
        except StepFailed as failure:
            return [failure.message, failure.error_type, failure.attempts, failure.code]

    stage = to_the_end(main)
    assert stage.output == ["step 'broken' failed: 'k'", "KeyError", 2, "raised"]
    assert again(stage, main).output == stage.output
    assert len(tried) == 2


@pytest.mark.parametrize("error", [PermanentError("never"), TypeError("x")])
def test_what_cannot_get_better_is_not_tried_again(error: Exception) -> None:
    async def body() -> None:
        raise error

    async def main() -> None:
        await step(body, retries=Retry(no_retry=(TypeError,)))

    stage = to_the_end(main)
    assert stage.asked == ["body"]
    assert stage.last.kind is Kind.FAILED


def test_a_body_may_say_when_to_try_again() -> None:
    async def body() -> int:
        if this_step().attempt == 1:
            raise RetryLater(after=90)
        return 1

    async def main() -> int:
        return await step(body)

    timers = [event.data["due_ms"] for event in to_the_end(main).log.events if event.kind is Kind.TIMER_SET]
    assert timers == [90_000]


def test_an_attempt_that_takes_too_long_is_stopped() -> None:
    async def body() -> str:
        if this_step().attempt == 1:
            await asyncio.sleep(3600)
        return "quick"

    async def main() -> str:
        return await step(body, timeout=timedelta(seconds=1))

    stage = to_the_end(main)
    assert stage.output == "quick"
    error = next(event.data["error"] for event in stage.log.events if event.kind is Kind.STEP_RECORDED)
    assert error["type"] == "TimeoutError"


def test_arguments_are_part_of_what_is_compared() -> None:
    async def main(n: int) -> int:
        return await step(double, n)

    stage = to_the_end(main, 1)
    other = again(stage, main, input=2)
    assert other.last.kind is Kind.STUCK
    assert "'double'" in other.last.data["message"]


def test_a_value_that_cannot_be_stored_sticks_at_once() -> None:
    async def body() -> Any:
        return object()

    async def main() -> None:
        await step(body)

    stage = to_the_end(main)
    assert stage.last.kind is Kind.STUCK
    assert "what step 'body' returned" in stage.last.data["message"]


def test_arguments_that_are_no_json_are_bound() -> None:
    async def use(connection: object, n: int) -> int:
        return n

    async def main(bound: bool) -> int:
        return await step(partial(use, object()), 1) if bound else await step(use, object(), 1)

    assert to_the_end(main, True).output == 1
    assert to_the_end(main, False).last.data["code"] == "unserialisable"


def test_names_that_addresses_cannot_have_are_refused() -> None:
    async def main(name: str) -> int:
        return await step(double, 1, name=name)

    for name in ("a/b", "", "2", "a:b", "x" * 201):
        assert to_the_end(main, name).last.data["code"] == "bad_name"


def test_a_tool_that_hides_something_is_no_step() -> None:
    @tool(redact=lambda told: "***")
    def read_card() -> str:
        return "4000-0012-3456-7899"

    async def main() -> str:
        return await step(read_card)

    stage = to_the_end(main)
    assert stage.last.data["code"] == "bad_step"
    assert "4000" not in repr(stage.last)


def test_odd_retries_are_refused() -> None:
    with pytest.raises(InvalidInput):
        Retry(retries=-1)
    with pytest.raises(InvalidInput):
        Retry(pause=timedelta(-1))


pytestmark = pytest.mark.anyio
