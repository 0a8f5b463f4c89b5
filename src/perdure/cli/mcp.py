"""`perdure mcp`: rooms for a program that speaks MCP on standard input and output."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.connect import By, LogLevel, Server, find

if TYPE_CHECKING:
    from perdure.doors.room_tools import Member


def mcp(
    room: Annotated[
        str,
        typer.Option("--room", metavar="ROOM", help="Only this room. By default all of yours.", show_default=False),
    ] = "",
    by: By = "",
    server: Server = None,
    log_level: LogLevel = "warning",
) -> None:
    """Join rooms from any program that speaks MCP, which starts this command and speaks to it on its standard input.

    What it says goes to a Perdure server: --server, PERDURE_URL, or the one that this user runs here. The key is
    PERDURE_API_KEY, or that of this user's own server. Ends when standard input does.
    """
    import asyncio

    asyncio.run(_serve(_server_maker(), server, room, by, log_level))


def _server_maker() -> Callable[[Callable[[Any], Member]], Any]:
    try:
        from perdure.doors.mcp_server import make_server
    except ImportError:
        from perdure.errors import UserError

        raise UserError("MCP is not installed here: `pip install 'perdure[mcp]'`.", code="mcp_missing") from None
    return make_server


async def _serve(
    make_server: Callable[[Callable[[Any], Member]], Any], server: str | None, room: str, by: str, log_level: str
) -> None:
    from mcp.server.stdio import stdio_server

    from perdure.cli.terminal import whoami
    from perdure.client.http import HttpApi
    from perdure.doors.room_tools import Member
    from perdure.log import configure

    target = await find(server)
    api = HttpApi(target.url, target.key)
    try:
        await api.rooms()  # a wrong address or key is told now, and not to a model
        configure(log_level)
        member = Member(api, by or whoami(), room)
        door = make_server(lambda _: member)
        async with stdio_server() as (reading, writing):
            await door.run(reading, writing, door.create_initialization_options())
    finally:
        await api.aclose()
