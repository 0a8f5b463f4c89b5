"""One worker for the agents that a runtime serves together: one connection, and each agent's tools as its author made
them."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import Agent, InvalidInput, ToolContext, tool
from perdure.models.catalog import Catalog
from perdure.models.scripted import call, say
from runtimes import runtime_at

MODELS = Catalog(scripted={"asks": [call("whose"), say("asked")]})


@tool
def whose(ctx: ToolContext) -> str:
    """Say what this agent's tools find around them."""
    return str(ctx.dependencies)


def agent(name: str) -> Agent:
    return Agent(name=name, model="scripted/asks", instructions="x", tools=[whose], dependencies=f"{name}'s own")


def test_agents_that_are_served_together_share_a_worker(tmp_path: Path) -> None:
    ann, bob, late = agent("ann"), agent("bob"), agent("late")
    with runtime_at(tmp_path / "s.db", models=MODELS) as runtime:
        runtime.serve(ann, bob, ann, blocking=False)
        for one in (ann, bob, late):
            handle = runtime.start(one, "go")
            assert handle.result().status == "completed"
            events = runtime.wait(runtime.api.events(handle.execution_id))
            assert [event.data["value"] for event in events if event.kind == "task_completed"] == [f"{one.name}'s own"]
        lanes = sorted(sorted(lane.agent for lane in one.lanes) for one in runtime.wait(runtime.api.workers()))
        assert lanes == [["ann", "bob"], ["late"]]


def test_two_agents_of_one_name_are_not_served_together(tmp_path: Path) -> None:
    with runtime_at(tmp_path / "s.db", models=MODELS) as runtime, pytest.raises(InvalidInput, match="'ann'"):
        runtime.serve(agent("ann"), agent("ann"), blocking=False)
