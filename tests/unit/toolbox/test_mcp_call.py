"""One call of an MCP tool: which answers say that it was not made, and what comes after a result changes nothing of it.

The server is a small one of the test's own, as those of the SDK do not answer like this.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from answering_server import Says, Seen, answering
from perdure.agent.server_tools import McpPart
from perdure.errors import NotDone, PermanentError
from perdure.toolbox.guarded_http import Outbound
from perdure.toolbox.http_call import Asked
from perdure.toolbox.mcp_call import McpCaller, McpFailed

pytestmark = pytest.mark.anyio

CALLER = McpCaller(Outbound(allow_private=True))
JSON = {"Content-Type": "application/json"}


@dataclass
class Shop:
    """Acts whenever its tool is called, and answers that as the test says."""

    says: Says
    ends: Says = field(default_factory=lambda: Says(405))
    """What it says to the end of a session."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    acts: list[Any] = field(default_factory=list[Any])
    methods: list[str] = field(default_factory=list[str])

    def __call__(self, seen: Seen) -> Says:
        if seen.method == "DELETE":
            self.ended.set()
            return self.ends
        if seen.method == "GET":
            return Says(405)
        asked = json.loads(seen.body)
        self.methods.append(asked["method"])
        match asked["method"]:
            case "initialize":
                facts = {"capabilities": {"tools": {}}, "serverInfo": {"name": "shop", "version": "1"}}
                said = result(asked, {"protocolVersion": asked["params"]["protocolVersion"], **facts})
                return replace(said, headers={**JSON, "Mcp-Session-Id": "session_1"})
            case "tools/call":
                self.acts.append(asked["params"]["arguments"])
                return replace(self.says, body=self.says.body.replace(b"ID", str(asked["id"]).encode()))
            case _ if "id" not in asked:
                return Says(202)
            case _:
                return error(asked, -32601, status=404)


def result(asked: dict[str, Any], value: dict[str, Any]) -> Says:
    return Says(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": value}).encode(), JSON)


def error(asked: dict[str, Any], code: int, status: int) -> Says:
    said = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": code, "message": "no"}}
    return Says(status, json.dumps(said).encode(), JSON)


def answered(said: dict[str, Any], status: int = 200) -> Says:
    body = json.dumps({"jsonrpc": "2.0", "id": 0, **said}).replace('"id": 0', '"id": ID')
    return Says(status, body.encode(), JSON)


async def call(shop: Shop, delivery: str = "at_most_once") -> Any:
    async with answering(shop) as server:
        return await CALLER.call(McpPart(server.url), "refund", Asked({"cents": 5}, "key", delivery, 20))


@pytest.mark.parametrize(
    "says",
    [
        Says(202),
        Says(200, b"<html>thank you</html>", {"Content-Type": "text/html"}),
        Says(200, b'{"jsonrpc": "2.0", "id": ID, "result": {"content": [', JSON),
        Says(200, b"event: message\ndata: {{{\n\n", {"Content-Type": "text/event-stream"}),
        answered({"error": {"code": -32600, "message": "no"}}),
        answered({"result": {"nothing": "known"}}),
        answered({"error": {"code": -32603, "message": "no"}}, 500),
    ],
    ids=["accepted", "a page", "cut", "a broken event", "no request, in a 200", "no result", "broken inside"],
)
async def test_an_answer_that_does_not_say_so_is_no_word_that_the_call_was_not_made(says: Says) -> None:
    shop = Shop(says)
    for delivery in ("at_most_once", "at_least_once"):
        with pytest.raises(McpFailed):
            await call(shop, delivery)
    assert shop.acts == [{"cents": 5}] * 2


@pytest.mark.parametrize(
    "says",
    [
        answered({"error": {"code": -32602, "message": "no"}}),
        answered({"error": {"code": -32601, "message": "no"}}),
        answered({"error": {"code": -32600, "message": "no such session"}}, 404),
        answered({"error": {"code": -32600, "message": "no session"}}, 400),
    ],
)
async def test_a_refusal_says_that_the_call_was_not_made(says: Says) -> None:
    with pytest.raises(NotDone, match="the call was not made"):
        await call(Shop(says))
    with pytest.raises(PermanentError):
        await call(Shop(says), "at_least_once")


async def test_a_result_counts_whatever_the_server_says_of_its_schemas() -> None:
    """The tools are not listed after the call: this server has no list any more."""
    shop = Shop(answered({"result": {"content": [], "structuredContent": {"cents": "five"}}}))
    assert await call(shop) == {"cents": "five"}
    assert await call(shop, "at_least_once") == {"cents": "five"}
    assert "tools/list" not in shop.methods
    assert len(shop.acts) == 2


async def test_a_result_counts_when_the_call_is_stopped_while_its_session_ends() -> None:
    shop = Shop(answered({"result": {"content": [{"type": "text", "text": "refunded"}]}}), ends=Says(hang=True))
    calling = asyncio.create_task(call(shop))
    await shop.ended.wait()
    calling.cancel()
    assert await calling == "refunded"
