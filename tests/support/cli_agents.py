"""Agents and scripts that the tests of the command line serve by name: `cli_agents:agent`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from perdure import Agent, Approval, ToolContext, tool
from perdure.models.port import ModelReply, ModelRequest, Usage
from perdure.models.scripted import call, echo, say, together

GATE = Path(os.environ.get("CLI_TEST_GATE", "/nowhere"))
"""`gated` waits until this file is there."""


@tool
def add(a: int, b: int, ctx: ToolContext) -> int:
    """Add."""
    ctx.cost("0.02")
    return a + b


@tool(approval_required=True, delivery="at_most_once")
async def pay(cents: int, to: str) -> str:
    """Pay somebody."""
    return f"paid {cents} to {to}"


@tool(approval=Approval(quorum=2, approvers=("ann", "bob")))
async def transfer(cents: int) -> str:
    """Move money."""
    return f"moved {cents}"


@tool(retries=1)
def flaky(ctx: ToolContext) -> str:
    """Fail the first time."""
    if ctx.attempt == 1:
        raise ValueError("not yet")
    return "now"


@tool(delivery="at_most_once")
def lose() -> str:
    """Begin, and never say how it ended."""
    raise RuntimeError("half way")


@tool
def gated(ctx: ToolContext) -> str:
    """Wait for the test."""
    GATE.with_name(f"started-{ctx.attempt}").touch()
    while not GATE.exists():
        time.sleep(0.01)
    return "through"


@tool(retries=0, delivery="repeatable")
def odd() -> object:
    """Return what JSON has no word for."""
    return object()


@tool(retries=0, delivery="repeatable")
def huge() -> str:
    """Return more than its server takes."""
    return "x" * (9 * 1024 * 1024)


TOOLS = [add, pay, transfer, flaky, lose, gated, odd, huge]
agent = Agent(name="clerk", model="scripted/by-input", instructions="Do as asked.", tools=TOOLS)

USAGE = Usage(input_tokens=1_200, output_tokens=85)
SCRIPTS: dict[str, list[ModelReply]] = {
    "pay": [
        together(call("add", {"a": 1, "b": 2}), call("flaky")),
        call("pay", {"cents": 5, "to": "Ada \x1b[31m& sons"}),
        say("It is paid.", usage=USAGE, cost_usd=0.0021),
    ],
    "add": [call("add", {"a": 1, "b": 2}), say("3")],
    "transfer": [call("transfer", {"cents": 900}), say("moved")],
    "flaky": [call("flaky"), say("now")],
    "lose": [call("lose"), say("I do not know."), say("Ruled.")],
    "gated": [call("gated"), say("done")],
    "half": [together(call("odd"), call("pay", {"cents": 5, "to": "Ada"})), say("Half of it.")],
    "odd": [together(call("odd"), call("huge")), say("Both failed.")],
}


def by_input(request: ModelRequest) -> ModelReply:
    """Play the script that the first message names; say anything else back."""
    script = SCRIPTS.get(request.messages[0].text)
    done = sum(message.role == "assistant" for message in request.messages)
    return script[done] if script else echo(request)


unknown_model = Agent(name="lost", model="opennai/gpt-5.5", instructions="x")
no_key = Agent(name="poor", model="openai/gpt-5.5", instructions="x")
