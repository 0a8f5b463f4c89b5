"""An agent that takes money for an order and mails a receipt: each tool says what a crash may mean for it.

`perdure crashtest shop.py` kills the server and the worker at every boundary and counts what was done.
"""

from __future__ import annotations

from typing import Any

import stand_ins
from stand_ins import observe

from perdure import Agent, ToolContext, tool
from perdure.models.scripted import call, say


@tool(delivery="repeatable")
def find_order(order_id: str) -> dict[str, Any]:
    """Look an order up. Changes nothing."""
    return {"order_id": order_id, "cents": 4200, "email": "ann@example.com"}


@tool
def charge(order_id: str, cents: int, ctx: ToolContext) -> str:
    """Take the money. May run again after a crash: the bank recognises the key, which is the same each time."""
    return stand_ins.charge(order_id, cents, key=ctx.idempotency_key)


@tool(delivery="at_most_once")
def send_receipt(email: str, receipt: str) -> str:
    """Mail the receipt. Mail knows no keys, so it is never sent again by itself; if in doubt, somebody is asked."""
    stand_ins.mail(email, receipt)
    return "sent"


agent = Agent(
    name="shop",
    model="openai/gpt-5.5",
    instructions="Charge the customer for the order and mail the receipt.",
    tools=[find_order, charge, send_receipt],
)

script = [
    call("find_order", {"order_id": "order-17"}),
    call("charge", {"order_id": "order-17", "cents": 4200}),
    call("send_receipt", {"email": "ann@example.com", "receipt": "rcpt-1"}),
    say("Order 17 is paid, and the receipt is on its way."),
]
"""What the model says, turn by turn, when the agent is tested."""

__all__ = ["agent", "observe", "script"]
