"""An HTTP server on loopback that answers as a test says, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Seen:
    """One request."""

    method: str
    target: str
    headers: dict[str, str]
    """By their names in small letters."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Says:
    """One answer. `hang` never comes; `cut` closes the connection instead."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    hang: bool = False
    cut: bool = False


@dataclass
class Answering:
    """A running server."""

    port: int = 0
    answer: Callable[[Seen], Says] = field(default=lambda _seen: Says())
    seen: list[Seen] = field(default_factory=list[Seen])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            seen = Seen(method, target, headers, body)
            self.seen.append(seen)
            said = self.answer(seen)
            if said.hang:
                await reader.read()  # until the other side has had enough
            elif not said.cut:
                writer.write(_bytes_of(said))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def _bytes_of(said: Says) -> bytes:
    headers = {"Content-Length": str(len(said.body)), "Connection": "close", **said.headers}
    lines = [f"HTTP/1.1 {said.status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + said.body


@asynccontextmanager
async def answering(answer: Callable[[Seen], Says] | None = None) -> AsyncIterator[Answering]:
    """Have a server while the block lasts."""
    running = Answering()
    if answer is not None:
        running.answer = answer
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
