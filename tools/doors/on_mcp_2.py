"""The errand with `mcp` 2.x: `on_mcp_2.py http|stdio URL KEY ROOM FOREIGN PYTHON`."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from importlib.metadata import version

import errand
import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


async def main(how: str, url: str, key: str, room: str, foreign: str, python: str) -> None:
    async with AsyncExitStack() as stack:
        if how == "http":
            headers = {"Authorization": f"Bearer {key}"}
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60))
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
        else:
            env = {"PERDURE_API_KEY": key, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
            arguments = ["-m", "perdure", "mcp", "--server", url]
            transport = stdio_client(StdioServerParameters(command=python, args=arguments, env=env))
        client = await stack.enter_async_context(Client(transport))

        async def tool(name: str, given: dict) -> tuple[bool, str]:
            done = await client.call_tool(name, given)
            return done.is_error, done.content[0].text

        async def names() -> list[str]:
            return [one.name for one in (await client.list_tools()).tools]

        await errand.run(tool, names, room, foreign, f"mcp-{version('mcp')}-{how}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
