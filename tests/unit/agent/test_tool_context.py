"""`ToolContext`: what it is without a worker, and where `current_tool` finds it."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from perdure.agent.context import Cancelled, ToolContext, current_tool, enter_tool
from perdure.errors import UserError


def test_a_unit_test_makes_its_own() -> None:
    context = ToolContext(dependencies={"db": 1}, idempotency_key="k")
    context.heartbeat()
    assert not context.cancelled
    assert (context.attempt, context.dependencies) == (1, {"db": 1})


def test_it_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ToolContext().attempt = 2  # type: ignore[misc]


def test_there_is_none_where_no_tool_runs() -> None:
    with pytest.raises(UserError) as caught:
        current_tool()
    assert caught.value.code == "not_in_a_tool"


def test_cancelled_passes_except_exception() -> None:
    assert not issubclass(Cancelled, Exception)


@pytest.mark.anyio
async def test_the_current_one_goes_into_tasks_and_threads() -> None:
    context = ToolContext(step_id="turn 1 / tool / a")

    async def body() -> list[str]:
        enter_tool(context)
        in_task = asyncio.create_task(ask())
        return [(await in_task).step_id, (await asyncio.to_thread(current_tool)).step_id]

    async def ask() -> ToolContext:
        return current_tool()

    found = await asyncio.create_task(body(), context=contextvars.copy_context())
    assert found == ["turn 1 / tool / a"] * 2
    with pytest.raises(UserError):
        current_tool()
