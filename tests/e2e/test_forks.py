"""Forks of agents with real tools on a real worker: what stands in for them runs there, and nothing is done again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Agent, AgentRuntime, ToolContext, tool
from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest
from perdure.models.scripted import call, say
from runtimes import runtime_at

paid: list[int] = []
pretended: list[tuple[int, str, str]] = []


def pretend(cents: int, ctx: ToolContext) -> dict[str, int]:
    pretended.append((cents, ctx.tool_name, ctx.step_id))
    return {"as if": cents}


@tool(delivery="at_most_once", simulate=pretend)
def pay(cents: int) -> dict[str, int]:
    """Pay."""
    paid.append(cents)
    return {"paid": cents}


@tool
def ship(cents: int) -> str:
    """Ship."""
    paid.append(-cents)
    return "shipped"


agent = Agent(name="cashier", model="scripted/cashier", tools=[pay, ship])


def script(request: ModelRequest) -> ModelReply:
    """Do what the first message names, with as many cents as that has letters, then answer with what came of it."""
    asked = request.messages[0].text
    if request.messages[-1].role == "tool":
        return say(request.messages[-1].text)
    return call("ship" if asked.startswith("ship") else "pay", {"cents": len(asked)})


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[AgentRuntime]:
    paid.clear()
    pretended.clear()
    with runtime_at(tmp_path / "p.db", models=Catalog(scripted={"cashier": script})) as runtime:
        yield runtime


def test_a_fork_with_the_same_call_takes_the_origins_result(runtime: AgentRuntime) -> None:
    origin = runtime.start(agent, "pay")
    origin.result()
    fork = origin.fork(1)
    assert fork.result().output["result"] == '{"paid":3}'
    assert (paid, pretended) == ([3], [])


def test_a_fork_with_another_call_runs_what_stands_in_for_the_tool(runtime: AgentRuntime) -> None:
    origin = runtime.start(agent, "pay")
    origin.result()
    fork = origin.fork(1, prompt="pay more")
    assert fork.result().output["result"] == '{"as if":8}'
    assert paid == [3]
    [(cents, name, step)] = pretended
    assert (cents, name) == (8, "pay")
    [effect] = runtime.wait(runtime.api.effects(execution=fork.execution_id))
    assert (effect.outcome, effect.address, effect.claims) == ("simulated", step, 0)


def test_a_fork_whose_tool_has_none_waits_for_a_person_and_then_acts(runtime: AgentRuntime) -> None:
    origin = runtime.start(agent, "ship")
    origin.result()
    fork = origin.fork(1, prompt="ship it all")
    runtime.wait(_paused(runtime, fork.execution_id))
    assert paid == [-4]
    fork.resume()
    assert fork.result().output["result"] == "shipped"
    assert paid == [-4, -11]


async def _paused(runtime: AgentRuntime, execution: str) -> None:
    async for event in runtime.api.follow(execution):
        if event.kind == "paused":
            return
