"""List and call the tools of an MCP server, one session for each, through the guard of all that a server connects to.

The official SDK speaks the protocol; it is imported when it is first needed, and only there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import httpx2

from perdure.agent.server_tools import MAX_RESPONSE_BYTES, McpPart
from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.delivery import Delivery
from perdure.errors import NotDone, PermanentError
from perdure.toolbox.guarded_http import CONNECT_SECONDS, GuardedTransport, Outbound, Resolve, resolve
from perdure.toolbox.http_call import Asked, key_header

if TYPE_CHECKING:
    from mcp.client.client import Client

MOST_TOOLS = 256
_INVALID = frozenset({-32700, -32600, -32601, -32602})
"""Errors of JSON-RPC by which a request was never carried out."""


class McpFailed(Exception):
    """The call did not come through; it may the next time."""


@dataclass(frozen=True, slots=True)
class McpCaller:
    """Speaks to MCP servers as an operator allows."""

    outbound: Outbound
    resolve: Resolve = resolve

    async def list(self, part: McpPart, asked: Asked) -> Json:
        """Return the tools of a server: name, description, inputSchema, annotations. Raises `McpFailed`,
        `PermanentError`."""
        try:
            async with self._session(part, asked) as client:
                return self.outbound.hidden(part.headers).json(await _listed(client))
        except Exception as error:  # noqa: BLE001 - told in words of ours
            raise self.outbound.hidden(part.headers).error(_plain(error)) from None  # its own forms may tell a secret

    async def call(self, part: McpPart, tool: str, asked: Asked) -> Json:
        """Return what a tool says. Raises `PermanentError`, `McpFailed`; under `at_most_once` `NotDone` where the call
        was never sent, or never understood."""
        sent, result = False, None
        meta: Any = {"idempotencyKey": asked.key}
        try:
            async with self._session(part, asked) as client:
                sent = True
                # The session's own verb: the client's may send a call twice.
                result = await client.session.call_tool(tool, dict(asked.args), asked.timeout_seconds, meta=meta)
        except Exception as error:  # noqa: BLE001 - as above
            if result is None:  # else it is known what came of it, however the session ended
                raise self.outbound.hidden(part.headers).error(_judged(error, asked, sent)) from None
        return self._value(part, tool, result)

    def _value(self, part: McpPart, tool: str, result: Any) -> Json:
        text = self.outbound.hidden(part.headers).text(_text(result))
        if result.is_error:
            raise PermanentError(f"MCP tool {tool!r} reports an error: {text[:2_000]}", code="mcp_tool_error")
        if len(text) > MAX_RESPONSE_BYTES:
            return {"text": text[:MAX_RESPONSE_BYTES], "note": "the answer was longer, and is cut here"}
        if result.structured_content is None:
            return text
        try:
            return codec.round_trip(codec.decode(text), "the answer")[1]
        except Exception:  # noqa: BLE001 - it cannot be stored as it is: as text it can
            return text

    @asynccontextmanager
    async def _session(self, part: McpPart, asked: Asked) -> AsyncGenerator[Client]:
        try:
            from mcp.client.client import Client  # noqa: PLC0415 - an extra, and slow to import
            from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - as above
        except ImportError:
            raise PermanentError(
                "the server cannot speak MCP: install it there with `pip install 'perdure[mcp]'`.", code="mcp_missing"
            ) from None
        headers = {**self.outbound.resolved(part.headers), "Idempotency-Key": key_header(asked.key)}
        http = httpx2.AsyncClient(
            transport=GuardedTransport(self.outbound, self.resolve, max_bytes=4 * MAX_RESPONSE_BYTES),
            trust_env=False,
            headers={**headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(asked.timeout_seconds, connect=min(CONNECT_SECONDS, asked.timeout_seconds)),
        )
        async with http, Client(streamable_http_client(part.url, http_client=http)) as client:
            yield client


async def _listed(client: Client) -> Json:
    found: list[Json] = []
    cursor: str | None = None
    while len(found) < MOST_TOOLS:
        page = await client.list_tools(cursor=cursor)
        found += [_described(tool) for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found[:MOST_TOOLS]


def _described(tool: Any) -> Json:
    described = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    wanted = ("name", "description", "inputSchema", "annotations")
    return {name: described[name] for name in wanted if name in described}


def _text(result: Any) -> str:
    if result.structured_content is not None and not result.is_error:
        return codec.encode(result.structured_content, "the answer")
    parts = [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in result.content]
    return "\n".join(part["text"] if part["type"] == "text" else f"[{part['type']}]" for part in parts)


def _judged(error: Exception, asked: Asked, sent: bool) -> Exception:
    """Return what to raise: under `at_most_once` what never reached a tool did not happen."""
    plain = _plain(error)
    if asked.delivery == Delivery.AT_MOST_ONCE and (not sent or _code(error) in _INVALID):
        return NotDone(f"the call was not made: {plain}")
    return plain


def _plain(error: Exception) -> Exception:
    """Return an error in words of ours."""
    inner = _inner(error)
    if isinstance(inner, PermanentError):
        return inner
    kind: type[Exception] = PermanentError if _code(error) in _INVALID else McpFailed
    return kind(f"{type(inner).__name__}: {inner}")


def _inner(error: Exception) -> Any:
    """Return the one error that a group is about."""
    inner: Any = error
    while isinstance(inner, BaseExceptionGroup):
        inner = cast("Any", inner).exceptions[0]
    return inner


def _code(error: Exception) -> int | None:
    return getattr(getattr(_inner(error), "error", None), "code", None)
