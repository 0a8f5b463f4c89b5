"""An agent for crash tests that tells its effects itself: no `observe`, and one tool that tells nothing."""

from __future__ import annotations

from perdure import Agent, ToolContext, tool
from perdure.models.scripted import call, say, together
from perdure.testing.effects import tell_effect


@tool(delivery="at_most_once")
def pay(bill: str) -> str:
    """Pay, and say so."""
    tell_effect("pay", bill)
    return "paid"


@tool
def note(text: str, ctx: ToolContext) -> str:
    """Write something down; nobody is told whether that was done."""
    return f"{text} under {ctx.idempotency_key}"


agent = Agent(name="bookkeeper", model="openai/gpt-5.5", tools=[pay, note])
script = [call("pay", {"bill": "b-1"}), call("note", {"text": "paid b-1"}), say("Paid and noted.")]
nobody = [together(call("pay", {"bill": "b-1"}), call("pay", {"bill": "b-2"})), say("Paid both.")]
