"""The least of an HTTP client: what drives a server should cost little beside it. Standard library only, HTTP/1.1, no
TLS; a connection for each request that is under way, kept for the next one.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Refused(Exception):
    """The server answered with an error."""


@dataclass
class Client:
    """Requests to one address. Belongs to one event loop."""

    url: str
    headers: dict[str, str] = field(default_factory=dict[str, str])
    _idle: list[_Connection] = field(default_factory=list[_Connection])

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> bytes:
        """Return the body of the answer, whole. Raises `Refused` for any status but 2xx, and `OSError`."""
        reader, writer = connection = self._idle.pop() if self._idle else await self._connect()
        try:
            writer.write(self._request(method, path, body, headers))
            head = await reader.readuntil(b"\r\n\r\n")
            answer = await _body(reader, head.lower())
        except BaseException:
            writer.close()
            raise
        self._idle.append(connection)
        if head[9:10] != b"2":
            raise Refused(f"{method} {path}: {head[9:12].decode()} {answer[:300].decode(errors='replace')}")
        return answer

    async def close(self) -> None:
        """Close what is open."""
        while self._idle:
            _, writer = self._idle.pop()
            writer.close()
            await writer.wait_closed()

    async def _connect(self) -> _Connection:
        parts = urlsplit(self.url)
        return await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 22)

    def _request(self, method: str, path: str, body: Any, headers: dict[str, str]) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        given = {"host": urlsplit(self.url).netloc, "content-length": str(len(content)), **self.headers, **headers}
        if body is not None:
            given["content-type"] = "application/json"
        lines = [f"{method} {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in given.items())]
        return "\r\n".join([*lines, "", ""]).encode() + content


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    if b"transfer-encoding: chunked" not in head:
        length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return await reader.readexactly(int(length or 0))
    pieces: list[bytes] = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        pieces.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(pieces)
