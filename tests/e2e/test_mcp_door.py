"""The MCP route itself: what it refuses, what ends a wait, and two servers of one database behind it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest

from cli_processes import Home
from http_server import Server, open_node, serving, serving_node
from mcp_members import KEYS, add_companies, member, shared_room
from perdure.wire import routes
from raw_http import connected, exchange, request

pytestmark = pytest.mark.anyio

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
PREFIX = "io.modelcontextprotocol/"
ACCEPTED = "application/json, text/event-stream"
PATIENCE = 50.0
"""Seconds that a wait may take. No measure: something ends it."""


def call(server: Server, tool: str, **given: object) -> bytes:
    """Return the bytes of a call by acme, as clients made it before 2026."""
    body = orjson.dumps({**CALL, "params": {"name": tool, "arguments": given}})
    return request("POST", routes.MCP, server.address, key=KEYS["acme"], body=body, accept=ACCEPTED)


@asynccontextmanager
async def house(place: Path | str) -> AsyncGenerator[Server]:
    """Run a server whose store knows the companies."""
    await add_companies(place)
    async with serving_node(open_node(place)) as server:
        yield server


async def until_waited_for(server: Server, room: str, waited: bool = True) -> None:
    """Return when somebody waits for news of a room, or nobody does any more."""
    async with asyncio.timeout(PATIENCE):
        while (room in server.node.hub.heard("events")) != waited:  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.01)


async def test_only_what_the_protocol_sends_is_taken(tmp_path: Path) -> None:
    async with house(tmp_path / "s.db") as server:
        for method in ("GET", "DELETE", "PUT"):
            reply = await exchange(server.address, request(method, routes.MCP, server.address, key=KEYS["acme"]))
            assert (reply.status, reply.code) == (405, "method_not_allowed")
        for body, code in ((b"{", 400), (b"[]", 400), (b'{"jsonrpc": "2.0"}', 400), (b'{"id": 1}', 400)):
            data = request("POST", routes.MCP, server.address, key=KEYS["acme"], body=body, accept=ACCEPTED)
            assert (await exchange(server.address, data)).status == code, body
        data = request("POST", routes.MCP + "?company=acme", server.address, key=KEYS["acme"], body=b"{}")
        assert (await exchange(server.address, data)).code == "invalid_input"


async def test_space_around_a_header_says_nothing(tmp_path: Path) -> None:
    meta = {f"{PREFIX}protocolVersion": "2026-07-28", f"{PREFIX}clientCapabilities": {}}
    params = {"name": "list_rooms", "arguments": {}, "_meta": meta}
    said = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "accept": ACCEPTED}
    async with house(tmp_path / "s.db") as server:
        for name, code in (("list_rooms \t", 200), ("show_room", 400)):
            body = orjson.dumps({**CALL, "params": params})
            data = request("POST", routes.MCP, server.address, key=KEYS["acme"], body=body, mcp_name=name, **said)
            assert (await exchange(server.address, data)).status == code


async def test_an_unknown_tool_is_an_error_of_the_protocol(tmp_path: Path) -> None:
    async with house(tmp_path / "s.db") as server:
        found = (await exchange(server.address, call(server, "drop_tables"))).json
        assert (found["id"], found["error"]["code"]) == (1, -32602)
        assert "post_message" in found["error"]["message"]


async def test_a_server_without_the_sdk_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.streamable_http_manager", None)
    monkeypatch.setitem(sys.modules, "perdure.doors.mcp_server", None)
    async with house(tmp_path / "s.db") as server:
        reply = await exchange(server.address, call(server, "list_rooms"))
        assert (reply.status, reply.code) == (400, "mcp_missing")
        assert "pip install 'perdure[mcp]'" in reply.json["error"]["message"]
    home = Home(tmp_path)
    assert "error[mcp_missing]" in home.command("mcp").stderr


async def test_whoever_hangs_up_waits_no_longer(tmp_path: Path) -> None:
    async with house(tmp_path / "s.db") as server:
        room = await shared_room(server.url, "the bridge")
        for data in (
            call(server, "wait_for_answer", room=room, seconds=PATIENCE),
            request("GET", f"/v1/rooms/{room}?after=99&wait_seconds=50", server.address, key=KEYS["acme"]),
        ):
            async with connected(server.address) as (_, writer):
                writer.write(data)
                await until_waited_for(server, room)
            await until_waited_for(server, room, waited=False)


async def test_a_server_that_leaves_sends_those_who_wait_to_the_next(tmp_path: Path) -> None:
    async with house(tmp_path / "s.db") as server:
        room = await shared_room(server.url, "the bridge")
        async with member("http", server.url, "acme") as acme, anyio.create_task_group() as group:
            await acme.call("list_rooms")  # the client asks for the list of tools when it has its first answer

            async def wait() -> None:
                assert (await acme.call("wait_for_answer", room=room, seconds=PATIENCE))["again"]

            group.start_soon(wait)
            await until_waited_for(server, room)
            server.stop.set()


async def test_two_servers_of_one_database_are_one_door(postgres_database: str) -> None:
    async with (
        house(postgres_database) as first,
        serving_node(open_node(postgres_database)) as second,
        member("http", first.url, "acme") as here,
        member("http", second.url, "acme") as there,
    ):
        room = await shared_room(first.url, "the bridge")
        did: list[dict[str, Any]] = []

        async def post(number: int) -> None:
            did.append(await (here, there)[number % 2].call("post_message", room=room, text="hello"))

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(post, number)
        assert len({one["id"] for one in did}) == 1
        assert [one["created"] for one in did].count(True) == 1

        async def wait() -> None:
            news = await there.call("wait_for_answer", room=room, after=did[0]["seq"], seconds=PATIENCE)
            assert [one["text"] for one in news["messages"]] == ["news"]

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await until_waited_for(second, room)
            await here.call("post_message", room=room, text="news")


async def test_whose_words_they_are_is_whose_key_it_is(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        await server.node.add_key("acme", "acme-ops", KEYS["acme"])
        room = await server.api(KEYS["acme"]).create_room("the bridge")
        async with member("http", server.url, "acme", "?by=the%20president") as acme:
            await acme.call("post_message", room=room.id, text="hello")
            [said] = (await acme.call("read_messages", room=room.id))["messages"]
            assert (said["company"], said["author"]) == ("acme", "acme-ops")
