"""The tools of an MCP server, a real one in a process of its own: listed once, called by the rules of every task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_shop import acts, shop
from node_bench import NodeBench, Script, node_over
from perdure.agent.agent import Agent
from perdure.agent.discovery import mode_of
from perdure.agent.spec import spec_from_json
from perdure.core.events import Kind
from perdure.models.scripted import call, say, together
from perdure.server.tool_source import ServerTools
from perdure.toolbox.guarded_http import Outbound
from perdure.toolbox.mcp_tool import mcp_tool

pytestmark = pytest.mark.anyio

TOOLS = ServerTools(Outbound(allow_private=True, variables={"SHOP_KEY": "s3cret"}))


def of(url: str, **options: Any) -> Any:
    return mcp_tool(url, "shop", retry_pause_seconds=0, **options).entry


def asking(*calls: Any) -> Script:
    return Script([together(*calls), say("done"), say("done indeed")])


async def told(bench: NodeBench) -> list[str]:
    """Return what the model was told of its calls."""
    return [text for role, text in bench.script.shown(1) if role == "tool"]


async def test_tools_are_listed_once_and_called_with_their_key(tmp_path: Path) -> None:
    script = asking(call("shop_price", {"item": "bolt"}), call("shop_refund", {"cents": 5}), call("shop_odd_name_x"))
    with shop(tmp_path) as (_, url):
        async with node_over(tmp_path, script, tools=TOOLS) as bench:
            execution = await bench.start(of(url, headers={"Authorization": "Bearer ${env:SHOP_KEY}"}))
            assert (await bench.result(execution)).state == "completed"
            assert await told(bench) == ['{"cents":4}', '{"result":"refunded 5"}', '{"result":"odd"}']
            tasks = {task.tool: task for task in await bench.api.tasks(execution)}
        done = {line.split(" ")[0]: line for line in acts(tmp_path)}
        assert {name: task.delivery for name, task in tasks.items()} == {
            "shop": "repeatable",
            "shop_price": "repeatable",
            "shop_refund": "at_most_once",
            "shop_odd_name_x": "at_most_once",
        }
        assert done["refund"] == f"refund {tasks['shop_refund'].key} Bearer s3cret"
        offered = [tool.name for tool in script.requests[0].tools]
        assert offered == ["shop_price", "shop_label", "shop_refund", "shop_odd_name_x"]


async def test_an_error_of_a_tool_is_told_at_once(tmp_path: Path) -> None:
    with shop(tmp_path) as (_, url):
        async with node_over(tmp_path, asking(call("shop_label", {"item": "x"})), tools=TOOLS) as bench:
            await bench.result(await bench.start(of(url, tool_names=["label"])))
            [text] = await told(bench)
            assert "no label is left" in text
            assert len(acts(tmp_path)) == 1


async def test_a_mode_that_the_author_chose_goes_before_annotations(tmp_path: Path) -> None:
    with shop(tmp_path) as (_, url):
        async with node_over(tmp_path, asking(call("shop_refund", {"cents": 1})), tools=TOOLS) as bench:
            execution = await bench.start(of(url, delivery="at_least_once"))
            await bench.result(execution)
            assert {task.delivery for task in await bench.api.tasks(execution)} == {"repeatable", "at_least_once"}


async def test_a_server_killed_in_the_middle_of_an_at_most_once_call_leaves_it_uncertain(tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    with shop(tmp_path) as (process, url):
        async with node_over(tmp_path, asking(call("shop_refund", {"cents": 5})), tools=TOOLS) as bench:
            execution = await bench.start(of(url))
            while not acts(tmp_path):
                await bench.node.parts.clock.sleep(0.01)
            process.kill()
            lost = await bench.until(execution, Kind.TASK_UNCERTAIN)
            await bench.api.rule(execution, lost.address, "happened", by="ann")
            await bench.result(execution)
            assert "OUTCOME UNKNOWN" in (await told(bench))[0]
            assert len(acts(tmp_path)) == 1


async def test_what_was_never_sent_did_not_happen(tmp_path: Path) -> None:
    """The server has gone between the list and the call: the model is told, and nobody has to rule."""
    with shop(tmp_path) as (process, url):

        async def gate(_request: Any) -> None:
            process.kill()
            process.wait()

        script = asking(call("shop_refund", {"cents": 5}))
        script.gate = gate
        async with node_over(tmp_path, script, tools=TOOLS) as bench:
            execution = await bench.start(of(url))
            await bench.result(execution)
            assert "the call was not made" in (await told(bench))[0]
            assert Kind.TASK_UNCERTAIN not in await bench.kinds(execution)


async def test_a_server_that_may_not_be_reached_ends_the_run_in_words(tmp_path: Path) -> None:
    with shop(tmp_path) as (_, url):
        async with node_over(tmp_path, Script([say("x")]), tools=ServerTools(Outbound())) as bench:
            view = await bench.result(await bench.start(of(url)))
            assert view.state == "failed"
            last = (await bench.log(view.id))[-1]
            assert "could not be listed" in str(last.data)
            assert "no public address" in str(last.data)


@pytest.mark.parametrize(
    ("annotations", "mode"),
    [
        ({}, "at_most_once"),
        ({"destructiveHint": False}, "at_most_once"),
        ({"destructiveHint": True}, "at_most_once"),
        ({"idempotentHint": True, "destructiveHint": True}, "at_least_once"),
        ({"readOnlyHint": True}, "repeatable"),
        ({"readOnlyHint": "yes", "idempotentHint": 1}, "at_most_once"),
    ],
)
def test_annotations_choose_a_mode(annotations: dict[str, Any], mode: str) -> None:
    assert mode_of(annotations) == mode


def test_a_policy_of_the_agent_holds_for_them() -> None:
    tool = mcp_tool("https://shop.example/mcp", "shop")
    agent = Agent(name="clerk", model="scripted/x", tools=[tool], delivery_floor="at_most_once")
    assert agent.lanes() == {}
    assert spec_from_json(agent.compile()).tools[0].delivery == "at_most_once"
