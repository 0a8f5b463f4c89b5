"""A durable function whose code waits for somebody else's socket, outside of every step: `quiet_functions:listen`."""

from __future__ import annotations

import asyncio
import os

from perdure import durable


@durable(build="b1")
async def listen(port: int) -> str:
    """Return what a server says, as soon as it says anything."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    said = await reader.readline()
    writer.close()
    return said.decode() or os.name
