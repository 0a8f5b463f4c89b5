"""What a body says that it cost goes with the report of its attempt, whatever that attempt came to."""

from __future__ import annotations

import pytest

import isolated_tools as tools
from memory_tasks import MemoryTasks
from perdure.agent.context import ToolContext
from perdure.agent.tool import definition_of
from perdure.core.work import Report
from perdure.errors import InvalidInput
from perdure.system import SystemClock
from working import at_work, make_worker

pytestmark = pytest.mark.anyio


async def report_of(body: object, name: str = "work") -> Report:
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), body)):  # type: ignore[arg-type]
        address = source.add(name)
        await source.reported(address)
    return source.rows[address].reports[0]


async def test_costs_of_a_call_add_up_and_go_with_its_result() -> None:
    def work(ctx: ToolContext) -> str:
        ctx.cost(0.1)
        ctx.cost("0.2", "USD")
        ctx.cost(2, "EUR")
        return "done"

    report = await report_of(work)
    assert (report.value, report.cost) == ("done", {"EUR": "2", "USD": "0.3"})


async def test_an_attempt_that_failed_tells_what_it_cost() -> None:
    def work(ctx: ToolContext) -> None:
        ctx.cost(0.5)
        raise ValueError("no")

    assert (await report_of(work)).cost == {"USD": "0.5"}


async def test_an_isolated_body_tells_it_too() -> None:
    report = await report_of(tools.costly, definition_of(tools.costly).name)
    assert (report.value, report.cost) == ("done", {"USD": "0.25"})


def test_in_a_unit_test_of_a_tool_it_is_checked_and_goes_nowhere() -> None:
    ToolContext().cost(1)
    with pytest.raises(InvalidInput):
        ToolContext().cost(-1)
