"""Bytes to a socket and back: requests that no client library would send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from perdure.wire.frames import Frame, FrameReader

Address = tuple[str, int]


@dataclass(frozen=True)
class Reply:
    """What came back; status 0 if nothing did before the connection closed."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error; empty for anything else."""
        return self.json["error"]["code"] if self.status >= 400 else ""


NOTHING = Reply(0, {}, b"")


def request(
    method: str, path: str, address: Address, *, key: str = "", body: bytes | str | None = None, **headers: str
) -> bytes:
    """Return the bytes of a request. `headers` replace the usual ones; an empty value leaves one out."""
    usual = {"host": f"{address[0]}:{address[1]}"}
    if key:
        usual["authorization"] = f"Bearer {key}"
    body = body.encode() if isinstance(body, str) else body
    if body is not None:
        usual |= {"content-type": "application/json", "content-length": str(len(body))}
    usual |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in usual.items() if value), "", ""]
    return "\r\n".join(lines).encode("latin-1") + (body or b"")


@asynccontextmanager
async def connected(address: Address) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Hold one connection open, whatever the server does with it."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def exchange(address: Address, data: bytes, *, head_only: bool = False) -> Reply:
    """Send bytes on a connection of their own and return the first reply. `head_only` hangs up before its body."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(data)
        return await read_reply(reader, head_only=head_only)
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except ConnectionError:
            pass  # the server was quicker


async def until_status(address: Address, data: bytes, status: int) -> None:
    """Send a request again and again until it is answered so: for what a server learns only from its sockets."""
    async with asyncio.timeout(60):
        while (await exchange(address, data, head_only=True)).status != status:  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.01)


async def read_reply(reader: asyncio.StreamReader, *, head_only: bool = False) -> Reply:
    """Read one reply, of a length that its headers say, or up to the end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return NOTHING
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    status = int(first.split()[1])
    if head_only or status == 204:
        return Reply(status, headers, b"")
    length = headers.get("content-length")
    return Reply(status, headers, await reader.readexactly(int(length)) if length else await reader.read())


async def frames_of(reader: asyncio.StreamReader) -> AsyncGenerator[Frame]:
    """Yield the frames and comments of an event stream until it ends."""
    parser = FrameReader()
    while line := await reader.readline():
        if (size := int(line, 16)) == 0:
            return
        for frame in parser.feed((await reader.readexactly(size + 2))[:-2]):
            yield frame
