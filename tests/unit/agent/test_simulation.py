"""What stands in for a tool in a fork: declared beside it, checked at once, served under a name no tool can have."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Agent, InvalidInput, ToolContext, tool
from perdure.agent.tool import definition_of
from perdure.core.delivery import Delivery
from perdure.core.work import Lane
from perdure.toolbox.http_tool import http_tool
from perdure.toolbox.mcp_tool import mcp_tool


def pay(order: str, cents: int, ctx: ToolContext) -> str:
    """Pay an order."""
    raise AssertionError(f"{order} was paid {cents} under {ctx.idempotency_key}")


def pretend(order: str) -> str:
    return f"as if {order}"


def test_it_is_served_beside_its_tool_and_given_the_arguments_that_it_names() -> None:
    declared = tool(delivery="at_most_once", simulate=pretend, queue="money")(pay)
    lanes = Agent(name="payer", model="scripted/payer", tools=[declared]).lanes()
    assert set(lanes) == {Lane("payer", "pay", "money"), Lane("payer", "pay?simulate", "money")}
    found = lanes[Lane("payer", "pay?simulate", "money")]
    assert found.options.delivery is Delivery.REPEATABLE
    assert found.function(order="o1", cents=5) == "as if o1"


def test_the_server_is_told_that_there_is_one_and_no_more() -> None:
    spec = definition_of(tool(simulate=pretend)(pay)).spec()
    assert spec["rules"] == {"jitter": 0.2, "simulate": True}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"simulate": "a result"}, "expected a function"),
        ({"simulate": lambda invoice: None}, "simulate"),
        ({"simulate": pretend, "delivery": "repeatable"}, "which changes nothing"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        tool(**options)(pay)


def test_an_http_tool_says_what_stands_in_for_its_answer() -> None:
    entry = http_tool("pay", "Pay.", "https://example.com/pay", "POST", simulate={"paid": True}).entry
    assert entry.rules.simulate
    assert entry.http is not None
    assert entry.http.simulated == {"paid": True}
    with pytest.raises(InvalidInput, match="changes nothing"):
        http_tool("look", "Look.", "https://example.com/look", simulate=1)


def test_an_mcp_server_has_no_body_that_anything_could_stand_in_for() -> None:
    options: dict[str, Any] = {"simulate": pretend}
    with pytest.raises(InvalidInput, match="simulate"):
        mcp_tool("https://example.com/mcp", **options)
