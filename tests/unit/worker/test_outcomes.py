"""What becomes of a body: every way it can end is reported as what it was, and none of them ends the worker."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from memory_tasks import MemoryTasks
from perdure.agent.context import ToolContext, current_tool
from perdure.agent.tool import tool
from perdure.core.codec import MAX_VALUE_BYTES
from perdure.core.work import Report
from perdure.system import SystemClock
from working import at_work, make_worker

pytestmark = pytest.mark.anyio


async def outcome(body: Callable[..., Any], args: dict[str, Any] | None = None, **more: Any) -> Report:
    """Run one task and then another: whatever the first did, the worker goes on."""

    @tool(name="next", retries=0)
    def after() -> None: ...

    options = more.pop("options", {})
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), body, after, **options)):
        address = source.add(body.__name__, args, **more)
        await source.reported(address)
        await source.reported(source.add("next"))
    return source.rows[address].reports[0]


def as_async(body: Callable[[], Any]) -> Callable[..., Any]:
    async def run() -> Any:
        return body()

    run.__name__ = body.__name__
    return run


@pytest.fixture(params=["thread", "loop"])
def placed(request: pytest.FixtureRequest) -> Callable[[Callable[[], Any]], Callable[..., Any]]:
    """Have a body run in a thread, and on the tool loop."""
    return as_async if request.param == "loop" else lambda body: body


def fault(report: Report) -> tuple[str, str, bool]:
    assert report.outcome == "failed"
    assert report.failure is not None
    return report.failure.code, report.failure.message, report.failure.permanent


async def test_a_raise_is_a_failed_attempt_in_its_own_words(placed: Any) -> None:
    def body() -> None:
        raise KeyError("no such order")

    assert fault(await outcome(placed(body))) == ("tool_error", "KeyError: 'no such order'", False)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
async def test_what_ends_programs_ends_only_the_attempt(placed: Any, error: type[BaseException]) -> None:
    def body() -> None:
        raise error()

    assert fault(await outcome(placed(body))) == ("tool_error", error.__qualname__, False)


async def test_a_giant_error_is_cut(placed: Any) -> None:
    def body() -> None:
        raise ValueError("é" * 20_000_000)

    code, message, _ = fault(await outcome(placed(body)))
    assert code == "tool_error"
    assert len(message.encode()) <= 8 * 1024
    assert "more characters" in message


async def test_an_error_that_cannot_be_shown_is_named(placed: Any) -> None:
    class Shy(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    def body() -> None:
        raise Shy

    assert "Shy: (its text cannot be shown)" in fault(await outcome(placed(body)))[1]


async def test_an_unserialisable_result_fails_for_good(placed: Any) -> None:
    def body() -> object:
        return {"socket": object()}

    code, message, permanent = fault(await outcome(placed(body)))
    assert (code, permanent) == ("unserialisable", True)
    assert "the result of tool body.socket is a object" in message


async def test_a_result_over_the_limit_fails_for_good(placed: Any) -> None:
    def body() -> str:
        return "x" * (MAX_VALUE_BYTES + 1)

    code, message, permanent = fault(await outcome(placed(body)))
    assert (code, permanent) == ("too_large", True)
    assert "8,388,608" in message


async def test_an_act_whose_result_cannot_be_stored_is_done_with_a_receipt(placed: Any) -> None:
    def body() -> object:
        return {1, 2}

    report = await outcome(placed(body), delivery="at_most_once")
    assert (report.outcome, report.value) == ("completed", {"unserialisable": "{1, 2}"})


async def test_an_act_whose_result_breaks_while_it_is_stored_is_done_too() -> None:
    class Broken:
        def model_dump(self, **_: Any) -> object:
            raise RuntimeError("half closed")

        def __repr__(self) -> str:
            raise RuntimeError("as well")

    def body() -> object:
        return Broken()

    report = await outcome(body, delivery="at_most_once")
    assert report.outcome == "completed"
    assert "whose repr raises" in json.dumps(report.value)


async def test_the_value_is_what_the_log_will_give_back() -> None:
    shared = {"pair": (1, 2)}

    def body() -> object:
        return shared

    report = await outcome(body)
    assert report.value == {"pair": [1, 2]}
    assert report.value is not shared


async def test_wrong_arguments_fail_for_good_and_run_nothing(placed: Any) -> None:
    def body() -> None:
        raise AssertionError("must not run")

    code, message, permanent = fault(await outcome(placed(body), {"n": 1}))
    assert (code, permanent) == ("invalid_arguments", True)
    assert "n: there is no such parameter" in message


async def test_a_body_knows_its_call(placed: Any) -> None:
    def body() -> dict[str, Any]:
        ctx = current_tool()
        return {"key": ctx.idempotency_key, "tool": ctx.tool_name, "deps": ctx.dependencies, "attempt": ctx.attempt}

    options = {"dependencies": "shared", "agent_dependencies": {"agent": "own"}}
    report = await outcome(placed(body), options=options)
    assert report.value == {"key": "exe_1/turn 1 / tool / 1", "tool": "body", "deps": "own", "attempt": 1}


async def test_the_context_is_passed_in_where_it_is_asked_for() -> None:
    def plain(ctx: ToolContext, n: int) -> list[Any]:
        ctx.heartbeat()
        return [ctx is current_tool(), ctx.agent_name, ctx.execution_id, n]

    async def later(n: int, context: ToolContext) -> list[Any]:
        return plain(context, n)

    for body in (plain, later):
        report = await outcome(body, {"n": 3}, options={"dependencies": 1})
        assert report.value == [True, "agent", "exe_1", 3]


async def test_context_variables_reach_bodies_and_do_not_leak_back(placed: Any) -> None:
    request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")

    def body() -> str:
        seen = request.get()
        request.set("changed")
        return seen

    request.set("set where the worker was made")
    assert (await outcome(placed(body))).value == "set where the worker was made"
    assert request.get() == "set where the worker was made"


async def test_async_bodies_run_on_the_loop_that_was_given() -> None:
    loop = asyncio.get_running_loop()

    async def body() -> bool:
        return asyncio.get_running_loop() is loop

    assert (await outcome(body, options={"tool_loop": loop})).value is True
    assert (await outcome(body)).value is False


async def test_a_plain_wrapper_of_a_coroutine_function_works() -> None:
    async def inner(n: int) -> int:
        await asyncio.sleep(0)
        return n + current_tool().attempt

    @functools.wraps(inner)
    def body(n: int) -> Any:
        return inner(n)

    body.__name__ = "inner"
    assert (await outcome(body, {"n": 1})).value == 2


async def test_a_wrapper_of_a_coroutine_that_exits_ends_only_the_attempt() -> None:
    async def inner() -> None:
        raise SystemExit(3)

    @functools.wraps(inner)
    def body() -> Any:
        return inner()

    assert fault(await outcome(body)) == ("tool_error", "SystemExit: 3", False)


async def test_a_closed_tool_loop_fails_the_attempt() -> None:
    loop = asyncio.new_event_loop()
    loop.close()

    async def body() -> None: ...

    assert fault(await outcome(body, options={"tool_loop": loop}))[0] == "tool_loop_closed"


async def test_no_thread_is_left_when_the_worker_stopped() -> None:
    def body() -> None: ...

    async def later() -> None: ...

    before = set(threading.enumerate())
    await outcome(body)
    await outcome(later)
    left = set(threading.enumerate()) - before  # at most in its last instructions: what it was for is over
    for thread in left:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in left)
