"""The rules of a tool travel with the agent's definition, and definitions from before they existed are still read."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agent.agent import Agent
from perdure.agent.spec import spec_from_json
from perdure.agent.tool import tool
from perdure.core.rules import TaskRules
from perdure.errors import InvalidInput


@tool(retry_pause_seconds=0.5)
def look() -> str:
    return "seen"


def of_tool(**entry: Any) -> dict[str, Any]:
    tools = [{"name": "look", "description": "", "schema": {"type": "object"}, **entry}]
    return {"name": "clerk", "model": "scripted/x", "instructions": "", "tools": tools}


def test_rules_travel_with_the_definition() -> None:
    spec = spec_from_json(Agent(name="clerk", model="scripted/x", instructions="", tools=[look]).compile())
    assert spec.tools[0].rules == TaskRules(pause_ms=500, jitter=0.2)


def test_definitions_of_the_first_release_keep_their_pause() -> None:
    assert spec_from_json(of_tool(pause_ms=700)).tools[0].rules == TaskRules(pause_ms=700)
    assert spec_from_json(of_tool()).tools[0].rules == TaskRules()


@pytest.mark.parametrize(
    "rules", [{"unheard_of": 1}, {"pause_ms": -1}, {"factor": 10**400}, {"jitter": 2}, {"probe": 1}]
)
def test_rules_that_cannot_be_meant_are_refused_with_the_definition(rules: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        spec_from_json(of_tool(rules=rules))
    assert refused.value.code in ("bad_agent", "bad_rules")


def test_a_definition_names_only_what_its_author_used() -> None:
    @tool(retry_jitter=0)
    def plain() -> str:
        return "seen"

    compiled: Any = Agent(name="clerk", model="scripted/x", instructions="", tools=[plain, look]).compile()
    first_release = {
        "name",
        "description",
        "schema",
        "delivery",
        "approval_required",
        "timeout_ms",
        "attempts",
        "queue",
    }
    assert set(compiled["tools"][0]) == first_release, "what came later would change every agent's fingerprint"
    assert compiled["tools"][1]["rules"] == {"pause_ms": 500, "jitter": 0.2}
