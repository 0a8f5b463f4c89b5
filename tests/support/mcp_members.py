"""Members of rooms who come in by MCP: the official SDK's client, over HTTP or through `perdure mcp`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from http_server import open_node
from perdure.client.http import HttpApi
from perdure.core.rooms import Invite, Join

Door = Literal["http", "http-2025", "stdio"]
DOORS: Sequence[Door] = ("http", "http-2025", "stdio")
KEYS = {name: f"pdk_{name}{'0' * 40}" for name in ("acme", "globex", "initech")}
"""Of the three companies. The last is in no room."""
WRITES_OF_A_ROOM = 2
"""How often `shared_room` passes `write_in_room`."""


@dataclass
class Caller:
    """One client, and what its calls come to."""

    client: Client

    async def call(self, tool: str, meta: Any = None, **given: Any) -> Any:
        """Call a tool that is to do it; return what it gives."""
        done = await self.client.call_tool(tool, given, meta=meta)
        assert not done.is_error, done.content
        assert json.loads(text_of(done)) == done.structured_content
        return done.structured_content

    async def refused(self, tool: str, **given: Any) -> dict[str, Any]:
        """Call a tool that is to refuse it; return the error."""
        done = await self.client.call_tool(tool, given)
        assert done.is_error, done.structured_content
        return json.loads(text_of(done))["error"]


def text_of(result: Any) -> str:
    [content] = result.content
    return content.text


@asynccontextmanager
async def member(door: Door, url: str, company: str, query: str = "", *more: str) -> AsyncGenerator[Caller]:
    """Come in for a company. `query`: of the address, over HTTP; `more`: of the command line."""
    if door == "stdio":
        path = os.pathsep.join(one for one in sys.path if one)
        env = {"PERDURE_API_KEY": KEYS[company], "PYTHONPATH": path, "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
        arguments = ["-m", "perdure", "mcp", "--server", url, *more]
        async with Client(StdioServerParameters(command=sys.executable, args=arguments, env=env)) as client:
            yield Caller(client)
        return
    headers = {"Authorization": f"Bearer {KEYS[company]}"}
    mode: Any = "legacy" if door == "http-2025" else "auto"
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp{query}", http_client=http), mode=mode) as client,
    ):
        yield Caller(client)


async def add_companies(place: Path | str) -> None:
    """Give a new store the keys of the companies."""
    node = open_node(place)
    try:
        for name, key in KEYS.items():
            await node.add_key(name, f"{name}-ops", key)
    finally:
        node.stop()


async def shared_room(url: str, name: str) -> str:
    """Make a room of acme's that globex is in; return its id."""
    acme, globex = HttpApi(url, KEYS["acme"]), HttpApi(url, KEYS["globex"])
    try:
        room = (await acme.create_room(name)).id
        await acme.write_in_room(room, Invite("globex"))
        await globex.write_in_room(room, Join())
        return room
    finally:
        await acme.aclose()
        await globex.aclose()
