"""The test that docs/guides/testing.md shows is one that passes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, tool

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "testing.md"


@tool
def read_order(order_id: str) -> dict[str, Any]:
    """Look an order up."""
    return {"order": order_id, "paid_cents": 4200}


@tool(approval_required=True, delivery="at_most_once", timeout_seconds=60)
def send_refund(order_id: str, cents: int) -> str:
    """Send money back."""
    return f"receipt {order_id}-R over {cents}"


@pytest.mark.sqlite_only("a program that is its own server has a file")
def test_the_guides_test_passes(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {"refunds": Agent(name="refunds", model="openai/gpt-5.5", tools=[read_order, send_refund])}
    exec(found[1], names)
    names["test_a_refund_asks_first"](tmp_path)
