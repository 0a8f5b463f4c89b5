"""MCP over HTTP: `POST /mcp`. One request, one JSON answer, and nothing kept: any server answers the next.

Guard, gate and body limits are those of every route (`app.py`). The company comes from the key alone; the query may
narrow the door to one room (`?room=`), and say who writes where the key is believed (`?by=`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import Message, Scope

from perdure.core.room_views import RoomView
from perdure.doors.room_tools import Look, Member
from perdure.errors import InvalidInput, Retryable, UserError
from perdure.server.call import Call
from perdure.server.guard import ClientGone

_FIELDS = ("room", "by")
_MEMBER = "perdure.member"
"""Where whoever asks stands in the ASGI scope."""


class McpDoor:
    """Answers MCP requests of one HTTP application. The SDK is loaded when the first one comes."""

    def __init__(self) -> None:
        self._server: Any = None
        self._manager: Any = None
        """Makes what serves one request."""

    async def answer(self, call: Call, scope: Scope) -> None:
        """Answer one request. Raises `UserError` (`mcp_missing`), `InvalidInput` for a query that cannot be."""
        member = _member(call, scope)
        if self._server is None:
            made, self._manager = await asyncio.to_thread(_load)
            self._server = made.make_server(_member_of)
        # The protocol compares headers with the body, and HTTP allows space around their values.
        trimmed = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        scope = {**scope, "headers": trimmed, _MEMBER: member}
        manager = self._manager(self._server, json_response=True, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, _once(call), call.send)


def _member_of(context: Any) -> Member:
    return context.request.scope[_MEMBER]


def _load() -> tuple[ModuleType, Any]:
    try:
        from mcp.server.streamable_http_manager import (  # noqa: PLC0415 - an extra, and slow to import
            StreamableHTTPSessionManager,
        )

        from perdure.doors import mcp_server  # noqa: PLC0415 - as above
    except ImportError:
        raise UserError(
            "This server cannot speak MCP: install it there with `pip install 'perdure[mcp]'`.", code="mcp_missing"
        ) from None
    return mcp_server, StreamableHTTPSessionManager


def _member(call: Call, scope: Scope) -> Member:
    given = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))
    for name in given:
        if name not in _FIELDS:
            raise InvalidInput(f"query.{name[:80]}: there is no such field here; there are {', '.join(_FIELDS)}.")
    return Member(
        call.api, by=call.identity(given.get("by", "")), room=given.get("room", ""), hold=partial(_hold, call)
    )


async def _hold(call: Call, look: Look) -> RoomView | None:
    """Wait for news while the client is there and the server stays. Whoever calls again finds the next server."""
    with call.streams.place(call.principal.company, "waits for rooms", call.limits.polls):
        try:
            return await call.streams.run(look(), call.receive)
        except ClientGone:
            return None
        except Retryable as error:
            if error.code != "draining":
                raise
            return None


def _once(call: Call) -> Callable[[], Awaitable[Message]]:
    """Return what gives the body, which was read and judged before, and then what else comes."""
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            return await call.receive()
        given = True
        return {"type": "http.request", "body": call.raw, "more_body": False}

    return receive
