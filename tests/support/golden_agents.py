"""The agent whose logs are kept in tests/golden. Never change it: that would be another agent."""

from __future__ import annotations

from perdure import Agent, tool
from perdure.models.port import ModelReply, ModelRequest
from perdure.models.scripted import call, say, together


@tool(delivery="repeatable")
def look(item: str) -> str:
    """Look something up."""
    return f"{item} is in stock"


@tool(approval_required=True)
def order(item: str, count: int) -> dict[str, object]:
    """Order something."""
    return {"ordered": item, "count": count}


@tool(delivery="at_most_once")
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def script(request: ModelRequest) -> ModelReply:
    """Look twice side by side, order, pay, answer. Counts its turns by what it said before."""
    turn = sum(message.role == "assistant" for message in request.messages)
    match turn:
        case 0:
            return together(
                call("look", {"item": "bolts"}, id="a"), call("look", {"item": "nuts \N{NUT AND BOLT}"}, id="b")
            )
        case 1:
            return call("order", {"item": "bolts", "count": 7}, id="c")
        case 2:
            return call("pay", {"cents": 4200}, id="d")
        case _:
            return say(f"done after {turn} turns: {request.messages[-1].text}")


agent = Agent(
    name="golden",
    model="scripted/golden",
    instructions="Keep the shelves full.",
    tools=[look, order, pay],
)
