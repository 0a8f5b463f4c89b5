"""The errand with `mcp` 1.x: `on_mcp_1.py http|stdio URL KEY ROOM FOREIGN PYTHON`."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from importlib.metadata import version

import errand
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def main(how: str, url: str, key: str, room: str, foreign: str, python: str) -> None:
    async with AsyncExitStack() as stack:
        if how == "http":
            headers = {"Authorization": f"Bearer {key}"}
            reading, writing, _ = await stack.enter_async_context(streamablehttp_client(f"{url}/mcp", headers=headers))
        else:
            env = {"PERDURE_API_KEY": key, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
            arguments = ["-m", "perdure", "mcp", "--server", url]
            program = StdioServerParameters(command=python, args=arguments, env=env)
            reading, writing = await stack.enter_async_context(stdio_client(program))
        session = await stack.enter_async_context(ClientSession(reading, writing))
        await session.initialize()

        async def tool(name: str, given: dict) -> tuple[bool, str]:
            done = await session.call_tool(name, given)
            return done.isError, done.content[0].text

        async def names() -> list[str]:
            return [one.name for one in (await session.list_tools()).tools]

        await errand.run(tool, names, room, foreign, f"mcp-{version('mcp')}-{how}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
