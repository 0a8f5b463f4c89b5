"""Whoever is told by push: an HTTP server that keeps what it is sent, and answers as it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

OK = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"
BROKEN = b"HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
PATIENCE = 50.0
"""Seconds that something may take. No measure: a loaded machine takes its time."""


@dataclass
class Receiver:
    """One server on loopback."""

    url: str = ""
    answers: list[bytes] = field(default_factory=list[bytes])
    """What it answers, in turn; then always `OK`. An empty one is never answered."""
    told: list[tuple[str, dict[str, str], Any]] = field(default_factory=list[tuple[str, dict[str, str], Any]])
    """The request line, the headers and the body of each request."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def bodies(self) -> list[Any]:
        return [body for _, _, body in self.told]

    def states(self) -> list[str]:
        """Return the states that it was told of, each as often as it was."""
        updates = [body["statusUpdate"] for body in self.bodies() if "statusUpdate" in body]
        return [one["status"]["state"].removeprefix("TASK_STATE_") for one in updates]

    async def until(self, count: int) -> None:
        """Return when so many requests came."""
        async with asyncio.timeout(PATIENCE):
            while len(self.told) < count:
                self._news.clear()
                await self._news.wait()

    async def until_told(self, state: str) -> None:
        """Return when it was told that a task came to stand so."""
        async with asyncio.timeout(PATIENCE):
            while state not in self.states():
                self._news.clear()
                await self._news.wait()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.told.append((line, headers, orjson.loads(body) if body else None))
            answer = self.answers.pop(0) if self.answers else OK
            self._news.set()
            if answer:
                writer.write(answer)
                await writer.drain()
            else:
                await reader.read()  # until the other side has had enough
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def receiving() -> AsyncGenerator[Receiver]:
    """Listen on a free port while the block lasts."""
    found = Receiver()
    server = await asyncio.start_server(found.take, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/told"
    try:
        yield found
    finally:
        server.close()
