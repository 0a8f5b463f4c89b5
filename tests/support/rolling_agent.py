"""The agent of the rolling upgrades, and its model behind the world's `/model`.

Every line works in the old version and in the new one: both load this file.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from perdure import Agent, ToolContext, tool
from perdure.testing.world_client import World

MANY = 50
"""The death of a worker uses up a try, and here workers die more often than users give tries."""


@tool(retries=MANY)
def note(order: str, ctx: ToolContext) -> dict[str, Any]:
    """Write an order down: at least once, each time with the same key."""
    return act(ctx, order=order)


@tool(delivery="at_most_once", timeout_seconds=5)
def charge(order: str, ctx: ToolContext) -> dict[str, Any]:
    """Take the money: at most once."""
    return act(ctx, order=order)


@tool(approval_required=True, delivery="at_most_once", timeout_seconds=5)
def sign(order: str, ctx: ToolContext) -> dict[str, Any]:
    """Sign for an order: at most once, and only after somebody said yes."""
    return act(ctx, order=order)


def act(ctx: ToolContext, **args: Any) -> dict[str, Any]:
    """Do it to the world, in the name of the call."""
    names: dict[str, Any] = {
        "key": ctx.idempotency_key,
        "execution": ctx.execution_id,
        "step": ctx.step_id,
        "attempt": ctx.attempt,
    }
    return World(os.environ["ROLLING_WORLD"]).act(ctx.tool_name, **names, **args)


agent = Agent(
    name="clerk",
    model="scripted/clerk",
    base_url=os.environ.get("ROLLING_WORLD"),
    instructions="Handle the order.",
    tools=[note, charge, sign],
)

SIGNED = " signed"
"""What an order ends with that somebody has to say yes to."""
PLAN = (("note", "charge"), ("note",), ("charge", "note"))
SIGNED_PLAN = (("note", "charge"), ("sign",), ("note",))


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """Return the next reply to a conversation, the same whenever it is asked again."""
    messages = request["messages"]
    order = str(next(message["text"] for message in messages if message["role"] == "user"))
    turn = sum(message["role"] == "assistant" for message in messages)
    plan = SIGNED_PLAN if order.endswith(SIGNED) else PLAN
    tools = plan[turn] if turn < len(plan) else ()
    calls = [
        {"id": _name(order, turn, place), "name": name, "arguments": json.dumps({"order": f"{order}/{turn}/{place}"})}
        for place, name in enumerate(tools)
    ]
    return {
        "text": "" if calls else f"{order} is done.",
        "tool_calls": calls,
        "finish_reason": "tool_call" if calls else "stop",
        "usage": {"input_tokens": 10, "output_tokens": 5},
        "model": "scripted/clerk",
        "cost_usd": 0.0,
    }


def _name(*parts: object) -> str:
    return "call_" + hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
