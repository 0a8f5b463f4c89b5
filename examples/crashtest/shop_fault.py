"""The same agent with a mistake: `charge` is declared as a call that changes nothing, and gives the bank no key.

No test without crashes finds it. `perdure crashtest shop_fault.py` does.
"""

from __future__ import annotations

import stand_ins
from shop import find_order, script, send_receipt
from stand_ins import observe

from perdure import Agent, tool


@tool(delivery="repeatable")
def charge(order_id: str, cents: int) -> str:
    """Take the money."""
    return stand_ins.charge(order_id, cents)


agent = Agent(
    name="shop",
    model="openai/gpt-5.5",
    instructions="Charge the customer for the order and mail the receipt.",
    tools=[find_order, charge, send_receipt],
)

__all__ = ["agent", "observe", "script"]
