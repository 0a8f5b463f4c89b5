"""Who waits for the end of an execution that stands still is told so, once, with what to do."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

import pytest

from cli_processes import until
from perdure import AgentRuntime, Status, tool
from perdure.agent.agent import Agent
from perdure.client.standstill import until_ended
from perdure.models.catalog import Catalog
from perdure.models.port import ModelError, ModelReply, ModelRequest
from perdure.models.scripted import call, say
from runtimes import runtime_at

OFTEN = 0.02
keys: list[str] = []
"""What the script below asks for before it answers."""


@tool(approval_required=True)
def send(what: str) -> str:
    """Send it."""
    return f"{what} is sent"


@tool(delivery="at_most_once", timeout_seconds=60)
def lose() -> str:
    """Begin, and be lost."""
    raise RuntimeError("the line broke")


def script(request: ModelRequest) -> ModelReply:
    if not keys:
        raise ModelError("key", "set THE_KEY, then resume.", maybe_billed=False)
    first, *later = request.messages
    if later:
        return say("done")
    return call("lose") if first.text == "Lose it." else call("send", {"what": "it"})


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[AgentRuntime]:
    keys.clear()
    with runtime_at(tmp_path / "p.db", models=Catalog(scripted={"x": script})) as runtime:
        yield runtime


@pytest.fixture
def told() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


agent = Agent(name="sender", model="scripted/x", tools=[send, lose])


def test_a_missing_key_and_a_person_are_named_to_who_waits(
    runtime: AgentRuntime, told: list[warnings.WarningMessage]
) -> None:
    handle = runtime.start(agent, "Send it.")
    with ThreadPoolExecutor() as beside:
        waiting = beside.submit(runtime.wait, until_ended(runtime.api, handle.execution_id, repeat(OFTEN)))
        until(lambda: len(told) >= 1, "a word about the key")
        keys.append("here")
        handle.resume()
        until(lambda: len(told) >= 2, "a word about the approval")
        handle.approve()
        waiting.result()
    key, person = (str(one.message) for one in told)
    assert "set THE_KEY, then resume." in key
    assert f"perdure doctor {handle.execution_id}" in key
    assert "waits for a person to decide on a call of send: `perdure approvals approve " in person
    assert handle.result().status is Status.COMPLETED


def test_what_nobody_knows_is_named_to_who_waits(runtime: AgentRuntime, told: list[warnings.WarningMessage]) -> None:
    keys.append("here")
    handle = runtime.start(agent, "Lose it.")
    with ThreadPoolExecutor() as beside:
        waiting = beside.submit(runtime.wait, until_ended(runtime.api, handle.execution_id, repeat(OFTEN)))
        until(lambda: len(told) >= 1, "a word about the doubt")
        handle.rule(handle.get_status().waits[0].address, "give_up")
        waiting.result()
    assert "waits for a ruling on what became of lose" in str(told[0].message)


def test_run_and_result_are_such_waits(runtime: AgentRuntime, told: list[warnings.WarningMessage]) -> None:
    handle = runtime.start(agent, "Send it.")
    with ThreadPoolExecutor() as beside:
        waiting = beside.submit(handle.result)
        until(lambda: len(told) >= 1, "a word about the key")
        handle.cancel()
        assert waiting.result().status is Status.CANCELLED
    assert "set THE_KEY, then resume." in str(told[0].message)
