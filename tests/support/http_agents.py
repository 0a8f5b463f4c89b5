"""Agents whose tool is an endpoint of the world's, called by the server: `http_agents.py` is imported by its tests."""

from __future__ import annotations

from perdure import Agent, http_tool
from perdure.models.port import ModelReply, ModelRequest
from perdure.models.scripted import call, say, turns

CENTS = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}


def payer(url: str, delivery: str) -> Agent:
    """Return an agent that pays by a POST to `url`."""
    pay = http_tool(
        "pay",
        "Pay.",
        url,
        "POST",
        {"X-Company": "${env:SHOP_NAME}"},
        CENTS,
        delivery=delivery,  # type: ignore[arg-type] - a test's parameter
        retry_pause_seconds=0,
    )
    return Agent(name="payer", model="scripted/payer", tools=[pay])


def script(request: ModelRequest) -> ModelReply:
    """Pay, then say what was told; on news, say so again."""
    return call("pay", {"cents": 5}) if turns(request) == 0 else say(request.messages[-1].text)


def auditor(url: str) -> Agent:
    """Return an agent that pays with a secret, and reads in the world's log what was sent."""
    headers = {"X-Company": "${secret:SHOP}"}
    pay = http_tool("pay", "Pay.", f"{url}/act/pay", "POST", headers, CENTS, retry_pause_seconds=0)
    look = http_tool("look", "Look.", f"{url}/log", "GET", headers)
    return Agent(name="auditor", model="scripted/auditor", tools=[pay, look])


def audit(request: ModelRequest) -> ModelReply:
    """Pay, look, and say what was seen."""
    return [call("pay", {"cents": 5}), call("look", {}), say(request.messages[-1].text)][turns(request)]
