"""List and call the tools of an MCP server, one session for each, through the guard of all that a server connects to.

The official SDK speaks the protocol; it is imported when it is first needed, and only there.
"""

from __future__ import annotations

import asyncio
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
_NO_SUCH = frozenset({-32601, -32602})
"""Errors of JSON-RPC by which a request was never carried out: nothing has this name, or takes these arguments."""
_NO_REQUEST = frozenset({-32700, -32600})
"""Likewise where the answer is 4xx: what was sent is no request. The SDK says the same of an answer that it cannot read
and of a 202, and what became of the call is not known then."""


class McpFailed(Exception):
    """The call did not come through; it may the next time."""


@dataclass(slots=True)
class _Heard:
    """How far one session came. Owner: the call that it is for."""

    method: str
    """What it is for."""
    sent: bool = False
    """That was given to it."""
    status: int = 0
    """Of the answer to that; 0 while there is none."""

    async def note(self, response: httpx2.Response) -> None:
        """Take note of an answer, if it is to that, and not to what is sent beside it."""
        request = response.request
        if request.method == "POST" and codec.decode(request.content).get("method") == self.method:
            self.status = response.status_code

    def refused(self, error: Exception) -> bool:
        """Say whether the server's own word is that it did not carry the request out."""
        code = getattr(getattr(_inner(error), "error", None), "code", None)
        return code in _NO_SUCH or (code in _NO_REQUEST and 400 <= self.status < 500)


@dataclass(frozen=True, slots=True)
class McpCaller:
    """Speaks to MCP servers as an operator allows."""

    outbound: Outbound
    resolve: Resolve = resolve

    async def list(self, part: McpPart, asked: Asked) -> Json:
        """Return the tools of a server: name, description, inputSchema, annotations. Raises `McpFailed`,
        `PermanentError`."""
        heard = _Heard("tools/list")
        try:
            async with self._session(part, asked, heard) as client:
                return self.outbound.hidden(part.headers).json(await _listed(client))
        except Exception as error:  # noqa: BLE001 - told in words of ours
            told = _plain(error, heard)
            raise self.outbound.hidden(part.headers).error(told) from None  # its own forms may tell a secret

    async def call(self, part: McpPart, tool: str, asked: Asked) -> Json:
        """Return what a tool says. Raises `PermanentError`, `McpFailed`; under `at_most_once` `NotDone` where the call
        was never sent, or never understood."""
        heard, result = _Heard("tools/call"), None
        try:
            async with self._session(part, asked, heard) as client:
                heard.sent = True
                result = await _called(client, tool, asked)
        except asyncio.CancelledError:
            if result is None:  # else its time was up while the session ended: what came of it is known
                raise
        except Exception as error:  # noqa: BLE001 - as above
            if result is None:
                raise self.outbound.hidden(part.headers).error(_judged(error, asked, heard)) from None
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
    async def _session(self, part: McpPart, asked: Asked, heard: _Heard) -> AsyncGenerator[Client]:
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
            event_hooks={"response": [heard.note]},
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


async def _called(client: Client, tool: str, asked: Asked) -> Any:
    """Return the result of one call, made once.

    By the session's plainest verb: the client's may send a call twice, and the session's `call_tool` lists the tools
    afterwards, to hold the result against a schema. What goes wrong with that must not look as if the call had failed.
    """
    from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult  # noqa: PLC0415 - an extra, as above

    meta: Any = {"idempotencyKey": asked.key}
    params = CallToolRequestParams(name=tool, arguments=dict(asked.args), _meta=meta)
    result = await client.session.send_request(CallToolRequest(params=params), CallToolResult, asked.timeout_seconds)
    if result.result_type != "complete":
        raise McpFailed(f"the tool answered {result.result_type!r}: it wants more than its arguments.")
    return result


def _described(tool: Any) -> Json:
    described = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    wanted = ("name", "description", "inputSchema", "annotations")
    return {name: described[name] for name in wanted if name in described}


def _text(result: Any) -> str:
    if result.structured_content is not None and not result.is_error:
        return codec.encode(result.structured_content, "the answer")
    parts = [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in result.content]
    return "\n".join(part["text"] if part["type"] == "text" else f"[{part['type']}]" for part in parts)


def _judged(error: Exception, asked: Asked, heard: _Heard) -> Exception:
    """Return what to raise: under `at_most_once` what never reached a tool did not happen."""
    plain = _plain(error, heard)
    if asked.delivery == Delivery.AT_MOST_ONCE and (not heard.sent or heard.refused(error)):
        return NotDone(f"the call was not made: {plain}")
    return plain


def _plain(error: Exception, heard: _Heard) -> Exception:
    """Return an error in words of ours."""
    inner = _inner(error)
    if isinstance(inner, PermanentError | McpFailed):
        return inner
    kind: type[Exception] = PermanentError if heard.refused(error) else McpFailed
    return kind(f"{type(inner).__name__}: {inner}")


def _inner(error: Exception) -> Any:
    """Return the one error that a group is about."""
    inner: Any = error
    while isinstance(inner, BaseExceptionGroup):
        inner = cast("Any", inner).exceptions[0]
    return inner
