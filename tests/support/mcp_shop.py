"""An MCP server of the official SDK's that writes down what it did: `mcp_shop.py FOLDER PORT`. PORT 0 takes a free one.

`refund` waits as long as FOLDER/hold is there, after it acted.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations


def acts(folder: Path) -> list[str]:
    """Return what was done, in order."""
    path = folder / "acts"
    return path.read_text().splitlines() if path.exists() else []


@contextmanager
def shop(folder: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Have a server process while the block lasts; gives it and its address."""
    command = [sys.executable, __file__, str(folder), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as popen:
        try:
            assert popen.stdout is not None
            yield popen, popen.stdout.readline().strip()
        finally:
            popen.kill()


def make(folder: Path) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("shop")

    def act(what: str, ctx: Context[Any]) -> None:
        headers = ctx.headers or {}
        with (folder / "acts").open("a") as file:
            file.write(f"{what} {headers.get('idempotency-key')} {headers.get('authorization')}\n")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def price(item: str, ctx: Context[Any]) -> dict[str, int]:
        """Say what an item costs."""
        act("price", ctx)
        return {"cents": len(item)}

    @server.tool(annotations=ToolAnnotations(idempotent_hint=True))
    def label(item: str, ctx: Context[Any]) -> str:
        """Put a label on an item."""
        act("label", ctx)
        raise ToolError("no label is left")

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    async def refund(cents: int, ctx: Context[Any]) -> str:
        """Give money back."""
        act("refund", ctx)
        while (folder / "hold").exists():  # noqa: ASYNC110 - it is another process's file
            await asyncio.sleep(0.01)
        return f"refunded {cents}"

    @server.tool(name="odd.name/x")
    def odd() -> str:
        """Have a name that models do not accept."""
        return "odd"

    return server


def main(folder: Path, port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    app = make(folder).streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
