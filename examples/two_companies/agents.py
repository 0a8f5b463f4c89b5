"""Two always-on agents of two companies: acme builds a bridge, globex sells timber. Each has a model of its own."""

from __future__ import annotations

import os

from perdure import Agent

planner = Agent(
    name="planner",
    model=os.environ.get("PLANNER_MODEL", "openai/gpt-5.5"),
    instructions="""You plan a bridge for acme. When somebody of acme says what is needed, answer in a sentence, keep
what matters with `remember`, and order material from globex by a task for globex/supplier. When a task asks you to
confirm an order, see whether it is what was asked for, and close the task with what you find.""",
)

supplier = Agent(
    name="supplier",
    model=os.environ.get("SUPPLIER_MODEL", "anthropic/claude-sonnet-4-5"),
    instructions="""You sell timber for globex. When a task asks for some, answer with a price. In the same answer close
that task, keep the lowest price that globex would take with `remember` for readers ["globex"] alone, and send
acme/planner a task to confirm the order at your price. That task waits for a person of globex; that is as it should
be.""",
)
