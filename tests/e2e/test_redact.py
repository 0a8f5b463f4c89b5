"""A tool's author takes a secret out: then it is in no file of the store, and neither model nor caller ever saw it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, AgentRuntime, tool
from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest
from perdure.models.scripted import call, say

CARD = "4000-0012-3456-7899"


def hide(told: Any) -> Any:
    if isinstance(told, str):
        return told.replace(CARD, "(card)")
    return {**told, "card": "(card)"}


@tool(delivery="repeatable", redact=hide)
def read_card(customer: str) -> dict[str, str]:
    """Read a customer's card."""
    return {"customer": customer, "card": CARD}


@tool(retries=0, redact=hide)
def charge(cents: int) -> None:
    """Charge it."""
    raise RuntimeError(f"{CARD} was refused")


@pytest.mark.sqlite_only("it reads the files of a store")
def test_what_was_taken_out_is_in_no_file_and_was_never_told(tmp_path: Path) -> None:
    asked: list[ModelRequest] = []

    def model(request: ModelRequest) -> ModelReply:
        asked.append(request)
        turns = [call("read_card", {"customer": "ann"}), call("charge", {"cents": 5}), say("It was refused.")]
        return turns[len(asked) - 1]

    agent = Agent(name="cards", model="scripted/cards", tools=[read_card, charge])
    with AgentRuntime(store=tmp_path / "p.db", models=Catalog(scripted={"cards": model})) as runtime:
        result = runtime.run(agent, "Charge ann's card.")
        read, charged = result.tool_calls
        assert read.value == {"customer": "ann", "card": "(card)"}
        assert charged.error is not None
        assert "(card) was refused" in charged.error
        assert len(asked) == 3
        assert CARD not in repr(asked)
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert b"(card)" in b"".join(path.read_bytes() for path in files)
        assert [path.name for path in files if CARD.encode() in path.read_bytes()] == []
