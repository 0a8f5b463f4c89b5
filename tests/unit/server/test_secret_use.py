"""Secrets where they are used: headers of the tools that a server calls, and keys of models; each company its own."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from answering_server import Answering, Says, Seen, answering
from node_bench import PATIENCE, NodeBench, Script, node_over, spec, wait_until
from perdure.agent.server_tools import McpPart
from perdure.core import codec
from perdure.core.views import ExecutionView, StartRequest
from perdure.models.scripted import call, say
from perdure.server.server_keys import ServerKey
from perdure.server.tool_source import ServerTools
from perdure.toolbox.guarded_http import Outbound
from perdure.toolbox.http_call import Asked
from perdure.toolbox.http_tool import http_tool
from perdure.toolbox.mcp_call import McpCaller

pytestmark = pytest.mark.anyio

TOOLS = ServerTools(Outbound(allow_private=True))
VALUES = {"acme": "value-of-acme", "beta": "value-of-beta"}


def paying(server: Answering, **options: Any) -> Any:
    headers = {"Authorization": "Bearer ${secret:SHOP}"}
    return http_tool("pay", "Pay.", f"{server.url}/pay", "POST", headers, retry_pause_seconds=0, **options).entry


def script() -> Script:
    return Script([call("pay", {}), lambda request: say(request.messages[-1].text)])


@pytest.fixture
async def known(tmp_path: Path) -> AsyncIterator[NodeBench]:
    """Companies of which each has a secret of one name."""
    async with node_over(tmp_path, script(), tools=TOOLS) as bench:
        for number, company in enumerate(VALUES):
            await bench.node.add_key(company, "ops", f"pdk_{number}")
            await bench.node.api(company).set_secret("SHOP", VALUES[company], by="ann")
        yield bench


async def run(bench: NodeBench, company: str, *tools: Any, **options: Any) -> tuple[ExecutionView, str]:
    """Run an agent of a company to its end; return it, and all that is stored and told of it."""
    api = bench.node.api(company)
    execution = (await api.start(StartRequest(spec(*tools, **options), "hi"))).id
    async with asyncio.timeout(PATIENCE):
        async for _ in api.follow(execution):
            pass
    told = [await api.execution(execution), await api.events(execution), await api.log(execution)]
    told += [await api.effects(execution=execution), await api.tasks(execution), await api.diagnose(execution)]
    return await api.execution(execution), codec.encode(told)


def last_words(view: ExecutionView) -> str:
    return cast("dict[str, Any]", view.output)["result"]


async def test_each_company_sends_its_own_and_nobody_is_told_it(known: NodeBench) -> None:
    async with answering(lambda seen: Says(body=str(seen.headers).encode())) as server:
        for company, value in VALUES.items():
            view, told = await run(known, company, paying(server))
            assert server.seen[-1].headers["authorization"] == f"Bearer {value}"
            assert "Bearer ***" in last_words(view)
            assert "value-of" not in told
        await known.node.api("acme").set_secret("SHOP", "value-of-another", by="ann")
        await run(known, "acme", paying(server))
        assert server.seen[-1].headers["authorization"] == "Bearer value-of-another"  # from the next request on


async def test_an_agent_of_another_company_has_its_model_asked_at_no_address_in_the_house(tmp_path: Path) -> None:
    """Its definition says where; the server asks from where it stands."""
    async with node_over(tmp_path, script(), tools=ServerTools(Outbound())) as bench, answering() as server:
        await bench.node.add_key("acme", "ops", "pdk_acme")
        view, told = await run(bench, "acme", base_url=server.url)
        assert (view.state, server.seen) == ("failed", [])
        assert f"asks nobody at {server.url}" in told
        await bench.start(base_url=server.url)

        async def asked() -> list[Seen]:
            return server.seen

        await wait_until(asked)


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
async def test_one_that_is_not_there_sends_nothing_and_leaves_no_doubt(known: NodeBench, delivery: str) -> None:
    async with answering() as server:
        view, told = await run(known, "default", paying(server, delivery=delivery))
        assert (view.state, server.seen) == ("completed", [])
        assert "there is no secret SHOP" in told
        [effect] = await known.node.api("default").effects(execution=view.id)
        assert effect.outcome != "uncertain"


async def test_one_under_another_server_key_sends_nothing_and_says_which(tmp_path: Path, known: NodeBench) -> None:
    ring = known.node.secrets._ring  # a server that was started with another key
    known.node.secrets._ring = type(ring)((ServerKey(b"x" * 32),), ring.own)
    known.node.secrets._known.clear()
    async with answering() as server:
        view, told = await run(known, "acme", paying(server, delivery="at_most_once"))
        assert (view.state, server.seen) == ("completed", [])
        assert "are under the server key" in told


def mcp_answer(seen: Seen) -> Says:
    """Answer as an MCP server that tells each header it was sent: in the list of its tools, and else in an error."""
    asked = json.loads(seen.body or b"{}")
    told = seen.headers["authorization"]
    known: dict[str, Any] = {
        "initialize": {
            "protocolVersion": asked.get("params", {}).get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "shop", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "pay", "description": told, "inputSchema": {"type": "object"}}]},
    }
    if "id" not in asked:
        return Says(202)
    result = known.get(asked["method"])
    said = {"error": {"code": -32603, "message": told}} if result is None else {"result": result}
    body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}).encode()
    return Says(body=body, headers={"Content-Type": "application/json"})


async def test_an_mcp_server_is_sent_it_and_what_it_says_of_it_is_not_told() -> None:
    caller = McpCaller(Outbound(allow_private=True, secrets={"SHOP": "value-of-acme"}))
    asked = Asked({}, "key", "at_least_once", PATIENCE)
    async with answering(mcp_answer) as server:
        part = McpPart(server.url, {"Authorization": "Bearer ${secret:SHOP}"})
        [listed] = cast("list[Any]", await caller.list(part, asked))
        assert (listed["name"], listed["description"]) == ("pay", "Bearer ***")
        with pytest.raises(Exception, match=r"Bearer \*\*\*") as failed:
            await caller.call(part, "pay", asked)
        assert "value-of" not in "".join(traceback.format_exception(failed.value))
        assert {seen.headers["authorization"] for seen in server.seen} == {"Bearer value-of-acme"}


def completion(seen: Seen) -> Says:
    message = {"role": "assistant", "content": "you sent " + seen.headers["authorization"]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "x", "choices": [choice]}
    return Says(body=json.dumps(body).encode(), headers={"Content-Type": "application/json"})


async def test_a_company_pays_for_its_models_with_its_own_key(tmp_path: Path) -> None:
    async with answering(completion) as server:
        environ = {"OPENAI_API_KEY": "key-of-the-server", "OPENAI_BASE_URL": server.url}
        async with node_over(tmp_path, [], environ=environ) as bench:
            await bench.node.add_key("acme", "ops", "pdk_0")
            await bench.node.api("acme").set_secret("OPENAI_API_KEY", "key-of-acme", by="ann")
            for company, key in (("acme", "key-of-acme"), ("default", "key-of-the-server")):
                view, told = await run(bench, company, model="openai/x")
                assert server.seen[-1].headers["authorization"] == f"Bearer {key}"
                assert last_words(view) == "you sent Bearer ***"
                assert key not in told


@pytest.mark.sqlite_only("the key that is lost is the one that a file has of its own")
async def test_a_key_that_cannot_be_opened_pauses_and_asks_nobody(tmp_path: Path) -> None:
    async with answering(completion) as server:
        environ = {"OPENAI_API_KEY": "key-of-the-server", "OPENAI_BASE_URL": server.url}
        async with node_over(tmp_path, [], environ=environ) as bench:
            await bench.api.set_secret("OPENAI_API_KEY", "key-of-the-company", by="ann")
            own = bench.node.secrets._ring.own
            assert own is not None
            kept = own.read_bytes()
            own.unlink()
            bench.node.secrets._known.clear()
            execution = await bench.start(model="openai/x")
            view = await bench.state(execution, "paused")
            assert (view.reason, server.seen) == ("key", [])
            assert "this server has none; its own is kept in" in codec.encode(await bench.api.events(execution))
            own.write_bytes(kept)
            own.chmod(0o600)
            await bench.api.resume(execution, by="ann")
            assert last_words(await bench.result(execution)) == "you sent Bearer ***"
