"""A handle decides: approve, edit, respond, and only on the call that its caller was shown; logs of old stores too."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Agent, AgentHandle, AgentRuntime, Conflict, InvalidInput, tool
from perdure.client.ledger import executions_of, verify
from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest
from perdure.models.scripted import call, say
from perdure.wire.account import account_of
from runtimes import runtime_at

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1" / "perdure.db"


@tool(approval_required=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


agent = Agent(name="clerk", model="scripted/clerk", tools=[pay])


def script(request: ModelRequest) -> ModelReply:
    """Ask for one payment, then say what came of it."""
    last = request.messages[-1]
    return say(f"it said: {last.text}") if last.role == "tool" else call("pay", {"cents": 100})


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[AgentRuntime]:
    with runtime_at(tmp_path / "p.db", models=Catalog(scripted={"clerk": script})) as runtime:
        yield runtime


def asked(runtime: AgentRuntime) -> AgentHandle:
    """Start a run and return once it waits for the decision that its status then showed."""
    handle = runtime.start(agent, "pay 100")
    for event in handle.stream():
        if type(event).__name__ == "ApprovalRequested":
            break
    assert handle.get_status().approvals
    return handle


def test_an_edit_changes_what_is_done(runtime: AgentRuntime) -> None:
    handle = asked(runtime)
    with pytest.raises(InvalidInput) as refused:
        handle.edit({"cents": "many"})
    assert refused.value.code == "invalid_arguments"
    assert handle.edit({"cents": 7}, by="ann", reason="less").edited
    assert "paid 7" in str(handle.result().output)
    with pytest.raises(Conflict):
        handle.approve()


def test_an_answer_stands_for_the_tool(runtime: AgentRuntime) -> None:
    handle = asked(runtime)
    assert handle.respond("paid yesterday", by="ann").answer == "paid yesterday"
    assert "the call was not made: paid yesterday" in str(handle.result().output)
    assert handle.tasks() == []


async def asked_async(runtime: AgentRuntime) -> AgentHandle:
    """Start a run and return once it asks."""
    handle = await runtime.start_async(agent, "pay 100")
    async for event in handle.stream():
        if type(event).__name__ == "ApprovalRequested":
            break
    return handle


def test_the_async_twins_decide_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with runtime_at(tmp_path / "p.db", models=Catalog(scripted={"clerk": script})) as runtime:
            edited, answered = await asked_async(runtime), await asked_async(runtime)
            await edited.edit_async({"cents": 7})
            await answered.respond_async("no need")
            assert (await edited.result_async()).status == "completed"
            assert (await answered.result_async()).status == "completed"

    asyncio.run(run())


@pytest.mark.sqlite_only("it opens a file of an earlier release")
def test_logs_begun_before_there_was_a_chain_say_so_and_are_chained_from_then_on(tmp_path: Path) -> None:
    shutil.copy(GOLDEN, tmp_path / "perdure.db")
    with AgentRuntime(store=tmp_path / "perdure.db", models=Catalog(scripted={"golden": script})) as runtime:

        async def look() -> None:
            found = [await verify(runtime.api, one) async for one in executions_of(runtime.api)]
            assert found
            assert all(one.holds for one in found)
            assert all(one.unhashed for one in found), "nobody hashed them then"
            (first, *_) = found
            account = await account_of(runtime.api, first.execution)
            assert account.verified.unhashed == first.unhashed

        runtime.wait(look())
