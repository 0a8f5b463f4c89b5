"""Replies as the socket wants them. Two messages for most, and nothing in between."""

from __future__ import annotations

from typing import Any

from starlette.types import Send

from perdure.errors import PerdureError
from perdure.wire import codec
from perdure.wire.errors import NOT_SENT, dump_error, status_of

JSON = (b"content-type", b"application/json")
_ASK_FOR_KEY = (b"www-authenticate", b'Bearer realm="perdure"')
_SOON = (b"retry-after", b"1")


async def send_json(send: Send, value: Any) -> None:
    """Answer with a dataclass or JSON types."""
    await send_bytes(send, codec.dump(value))


async def send_error(send: Send, error: PerdureError) -> None:
    """Answer with an error."""
    await send_bytes(send, dump_error(error), status_of(error), error_headers(error))


def error_headers(error: PerdureError) -> list[tuple[bytes, bytes]]:
    """Return the headers that go with an error."""
    if status_of(error) == 401:
        return [_ASK_FOR_KEY]
    if error.code == "rate_limited":
        return [(b"retry-after", str(error.details.get("retry_after_seconds", 60)).encode())]
    return [_SOON] if error.code in NOT_SENT else []


async def send_bytes(
    send: Send, body: bytes, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Answer with JSON text."""
    start = [JSON, (b"content-length", str(len(body)).encode()), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
