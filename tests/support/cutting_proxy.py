"""A proxy that cuts connections: after so many bytes of reply, as a list says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

from raw_http import Address


@asynccontextmanager
async def cutting(address: Address, budgets: Iterator[int]) -> AsyncGenerator[str]:
    """Run a proxy before a server; yield its address. Each connection ends after the next budget of reply bytes."""
    pumps: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        pumps.add(task)
        upstream, to_server = await asyncio.open_connection(*address)
        asks = asyncio.create_task(_pump(reader, to_server, None))
        try:
            await _pump(upstream, writer, next(budgets))
        finally:
            asks.cancel()
            writer.transport.abort()
            to_server.transport.abort()
            pumps.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(pumps):
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        await server.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: int | None) -> None:
    try:
        while budget is None or budget > 0:
            data = await reader.read(65536 if budget is None else min(budget, 65536))
            if not data:
                return
            budget = None if budget is None else budget - len(data)
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return
