"""Waiting for the end of an execution over HTTP: one request, held until the end, or until its time is over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest

from http_server import Server, serving, start_request
from perdure.client.http import WAIT_SECONDS, HttpApi
from perdure.server.options import Limits, ServeOptions
from perdure.wire import routes
from raw_http import connected, exchange, request, until_status

pytestmark = pytest.mark.anyio


class Counting(httpx2.AsyncHTTPTransport):
    """Sockets, and what was asked of them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(f"{request.method} {request.url.raw_path.decode()}")
        return await super().handle_async_request(request)


def asking(server: Server, execution: str, wait_seconds: float) -> bytes:
    path = f"{routes.fill(routes.EXECUTION, execution=execution)}?wait_seconds={wait_seconds}"
    return request("GET", path, server.address, key=server.key)


async def parked(server: Server) -> str:
    """Return an execution that waits for a person, and that nobody listens to."""
    api = server.api()
    execution = (await api.start(start_request("approval"))).id
    async with asyncio.timeout(60):
        while (await api.execution(execution)).state != "waiting":  # noqa: ASYNC110 - to park leaves no event
            await asyncio.sleep(0.005)
    return execution


async def waited_for(server: Server, execution: str) -> None:
    """Return once somebody waits for its end."""
    async with asyncio.timeout(60):
        while execution not in server.node.hub.heard("events"):  # noqa: ASYNC110 - it is another's request
            await asyncio.sleep(0.005)


@pytest.mark.both_stores
async def test_one_request_waits_and_is_answered_at_the_end(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        verbs, sockets = server.api(), Counting()
        execution = await parked(server)
        api = HttpApi(server.url, server.key, transport=sockets)
        waiting = asyncio.create_task(api.wait(execution))
        await waited_for(server, execution)
        assert not waiting.done()
        await verbs.cancel(execution)
        async with asyncio.timeout(60):
            await waiting
        assert (await verbs.execution(execution)).state == "cancelled"
        path = routes.fill(routes.EXECUTION, execution=execution)
        assert sockets.asked == [f"GET {path}?wait_seconds={WAIT_SECONDS}"]
        await api.wait(execution)
        assert len(sockets.asked) == 2, "what has ended is answered at once"
        await api.aclose()


async def test_who_waits_in_vain_is_told_how_it_stands(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution = await parked(server)
        reply = await exchange(server.address, asking(server, execution, 0.05))
        assert (reply.status, reply.json["id"]) == (200, execution)
        assert reply.json["finished_ms"] is None
        refused = await exchange(server.address, asking(server, execution, 61))
        assert (refused.status, refused.code) == (422, "invalid_input")
        assert "wait_seconds" in refused.body.decode()
        missing = await exchange(server.address, asking(server, "exe_none", 30))
        assert missing.status == 404


async def test_who_hangs_up_waits_no_longer_and_waits_have_a_bound(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db", ServeOptions(limits=Limits(polls=1))) as server:
        execution = await parked(server)
        async with connected(server.address) as (_, writer):
            writer.write(asking(server, execution, 60))
            await waited_for(server, execution)
            reply = await exchange(server.address, asking(server, execution, 60))
            assert (reply.status, reply.code) == (503, "busy")
        await until_status(server.address, asking(server, execution, 0.01), 200)


async def test_a_server_that_leaves_keeps_nobody_waiting(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution = await parked(server)
        waiting = asyncio.create_task(exchange(server.address, asking(server, execution, 60)))
        await waited_for(server, execution)
        server.stop.set()
        reply = await waiting
        assert (reply.status, reply.code) == (503, "draining")
