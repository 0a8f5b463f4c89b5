"""A server's life: how it begins, how it is found, how it ends."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from http_server import Process, open_node, process, serving, start_request
from perdure.client.discover import running_server
from perdure.client.http import HttpApi
from perdure.errors import StoreFailed, UserError
from perdure.server.options import Limits, ServeOptions
from perdure.server.serve import serve
from perdure.wire import frames, routes, state_file
from raw_http import connected, exchange, read_reply, request

pytestmark = pytest.mark.anyio

LONG = "drain_seconds=3600"
"""With so long a time for what is under way, a server that ends at all ends because it waits for nothing."""
PATIENCE = 60.0
"""Seconds until a wait fails the test. No measure: a loaded machine takes its time."""


@asynccontextmanager
async def streams(server: Process, execution: str, count: int) -> AsyncGenerator[list[asyncio.StreamReader]]:
    """Hold event streams open and never read them."""
    path = routes.fill(routes.EVENTS, execution=execution)
    ask = request("GET", path, server.address, key=server.key, accept=frames.MEDIA_TYPE)
    async with AsyncExitStack() as held:
        pairs = [await held.enter_async_context(connected(server.address)) for _ in range(count)]
        for reader, writer in pairs:
            writer.write(ask)
            await reader.readuntil(b"\r\n\r\n")
        yield [reader for reader, _ in pairs]


async def end(server: Process, number: signal.Signals, *, within: float = PATIENCE) -> int:
    """Send a signal; return the exit status. Fails if it takes longer."""
    server.popen.send_signal(number)
    return await asyncio.to_thread(server.popen.wait, within)


async def started(server: Process, *, messages: int = 0, size: int = 0) -> str:
    api = HttpApi(server.url, server.key)
    execution = (await api.start(start_request("approval"))).id
    for _ in range(messages):
        await api.send(execution, "x" * size)
    await api.aclose()
    return execution


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_with_success(tmp_path: Path, number: signal.Signals) -> None:
    with process(tmp_path / "s.db", LONG) as server:
        assert await end(server, number) == 0


async def test_100_open_streams_do_not_delay_the_end(tmp_path: Path) -> None:
    with process(tmp_path / "s.db", LONG) as server:
        execution = await started(server)
        async with streams(server, execution, 100) as readers:
            assert await end(server, signal.SIGTERM) == 0
            for reader in readers:
                assert frames.DONE not in await reader.read()


async def test_readers_that_stopped_reading_do_not_delay_the_end(tmp_path: Path) -> None:
    with process(tmp_path / "s.db", "drain_seconds=1") as server:
        execution = await started(server, messages=8, size=1_000_000)
        async with streams(server, execution, 20):
            # after the drain, and before such readers would be cut off anyhow
            assert await end(server, signal.SIGTERM, within=Limits().stuck_seconds - 5) == 0


async def test_a_request_in_progress_is_finished(tmp_path: Path) -> None:
    with process(tmp_path / "s.db", LONG) as server:
        body = b'{"worker": "w", "held": []}'
        ask = request("POST", routes.BEAT, server.address, key=server.key, body=body)
        async with connected(server.address) as (reader, writer), asyncio.timeout(PATIENCE):
            writer.write(ask[:-5])
            await exchange(server.address, request("GET", routes.HEALTH, server.address))  # it has seen the first part
            server.popen.send_signal(signal.SIGTERM)
            await _until_refused(server)
            writer.write(ask[-5:])
            reply = await read_reply(reader)
            assert reply.status == 200
            assert reply.headers["connection"] == "close"
        assert await asyncio.to_thread(server.popen.wait, PATIENCE) == 0


async def _until_refused(server: Process) -> None:
    """Return once nobody listens any more."""
    while True:
        try:
            _, writer = await asyncio.open_connection(*server.address)
        except ConnectionError:
            return
        writer.transport.abort()
        await asyncio.sleep(0.01)


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with process(tmp_path / "s.db", LONG) as server:
        async with connected(server.address) as (_, writer), asyncio.timeout(PATIENCE):
            writer.write(request("POST", routes.BEAT, server.address, key=server.key, body=b'{"worker": "w"}')[:-5])
            await exchange(server.address, request("GET", routes.HEALTH, server.address))
            server.popen.send_signal(signal.SIGTERM)
            await _until_refused(server)  # two that arrive together are one
            assert await end(server, signal.SIGTERM) == 0


async def test_the_state_file_leads_to_it_while_it_runs_and_keeps_the_key(tmp_path: Path) -> None:
    path = tmp_path / "state" / "server.json"
    with process(tmp_path / "s.db", f"state_file={path}") as server:
        found = await running_server(path)
        assert found is not None
        assert (found.url, found.key, found.pid) == (server.url, server.key, server.popen.pid)
        assert path.stat().st_mode & 0o777 == 0o600
        api = HttpApi(found.url, found.key)
        assert (await api.info()).nonce == found.nonce
        await api.aclose()
        assert await end(server, signal.SIGTERM) == 0
    assert await running_server(path) is None
    with process(tmp_path / "s.db", f"state_file={path}") as again:
        assert again.key == server.key
        assert (await running_server(path)) is not None
    with process(tmp_path / "other.db", f"state_file={path}") as other:
        assert other.key != server.key


async def test_who_took_the_port_of_a_dead_server_is_not_taken_for_it(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    with process(tmp_path / "s.db", f"state_file={path}") as server:
        port = server.address[1]
        server.popen.kill()
        server.popen.wait()
    dead = state_file.read(path)
    assert dead is not None
    assert dead.url.endswith(f":{port}")
    assert await running_server(path) is None
    heard: list[bytes] = []

    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        body = b'{"status": "ok", "proof": "guess"}'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    squatter = await asyncio.start_server(impostor, "127.0.0.1", port)
    async with squatter:
        assert await running_server(path) is None
    assert heard
    assert not any(dead.key.encode() in text or dead.nonce.encode() in text for text in heard)
    with process(tmp_path / "s.db") as another:  # a server, but another one
        state_file.write(path, replace(dead, url=another.url))
        assert await running_server(path) is None


async def test_a_taken_port_is_told_before_anything_is_served(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    node = open_node(tmp_path / "s.db")
    with socket.create_server(("127.0.0.1", 0)) as other:
        options = ServeOptions(port=other.getsockname()[1], state_file=path)
        with pytest.raises(UserError) as caught:
            await serve(node, options, on_ready=lambda _: None)
    assert caught.value.code == "port_in_use"
    assert not path.exists()
    await asyncio.to_thread(node.stop)


async def test_a_place_where_no_state_file_can_be_is_no_reason_not_to_serve(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with serving(tmp_path / "s.db", ServeOptions(state_file=tmp_path / "file" / "server.json")) as server:
        assert (await exchange(server.address, request("GET", routes.READY, server.address))).status == 200


async def test_a_failed_store_ends_the_server_and_is_raised(tmp_path: Path) -> None:
    ready = asyncio.Event()
    node = open_node(tmp_path / "s.db")
    task = asyncio.create_task(serve(node, ServeOptions(port=0), on_ready=lambda _: ready.set()))
    await ready.wait()
    node.failure = StoreFailed("the disk refused a write", code="store_failed")
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StoreFailed):
            await task
    node.failure = None
    await asyncio.to_thread(node.stop)


async def test_a_server_that_cannot_work_is_not_ready_and_still_alive(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        for path in (routes.HEALTH, routes.READY):
            assert (await exchange(server.address, request("GET", path, server.address))).status == 200
        server.node.drain()
        assert (await exchange(server.address, request("GET", routes.HEALTH, server.address))).status == 200
        reply = await exchange(server.address, request("GET", routes.READY, server.address))
        assert (reply.status, reply.code) == (503, "not_ready")
        reply = await exchange(server.address, request("GET", routes.INFO, server.address, key=server.key))
        assert (reply.status, reply.code) == (503, "draining")


async def test_a_key_made_meanwhile_works_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        key = "pdk_" + "n" * 43
        assert (await exchange(server.address, request("GET", routes.INFO, server.address, key=key))).status == 401
        await server.node.add_key("acme", "ada", key)
        assert (await exchange(server.address, request("GET", routes.INFO, server.address, key=key))).status == 200
