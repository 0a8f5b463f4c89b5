"""Clients that mean harm, or cannot speak: nothing of it hangs the server, fills its memory or goes past the guard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from http_server import Server, process, serving
from perdure.server.options import Limits, ServeOptions
from perdure.wire import routes
from raw_http import Address, Reply, connected, exchange, read_reply, request, until_status

pytestmark = pytest.mark.anyio

MEGABYTE = 1024 * 1024
CUT_WITHIN = 30.0
"""Seconds until a test gives up. No measure: by which limit a client was cut off, the reply says."""


@asynccontextmanager
async def guarded(tmp_path: Path, limits: Limits | None = None) -> AsyncGenerator[Server]:
    """Run a server; only what a test is about has a small limit, so that a slow machine meets no other."""
    limits = limits or Limits()
    async with serving(tmp_path / "s.db", ServeOptions(limits=limits, drain_seconds=2.0)) as server:
        yield server


MALFORMED: dict[str, bytes] = {
    "no Host": b"GET /health HTTP/1.1\r\n\r\n",
    "an empty Host": b"GET /health HTTP/1.1\r\nHost:\r\n\r\n",
    "two Hosts": b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "Host and an absolute address": b"GET http://evil.example/health HTTP/1.1\r\nHost: \r\n\r\n",
    "lines that end in LF": b"GET /health HTTP/1.1\nHost: localhost\n\n",
    "length and chunks": b"POST /v1/worker/beat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"POST /v1/worker/beat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST /v1/worker/beat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
    b"Content-Length: 5\r\n\r\n{}  ",
    "a length below zero": b"POST /v1/worker/beat HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "a length with a sign": b"POST /v1/worker/beat HTTP/1.1\r\nHost: localhost\r\nContent-Length: +2\r\n\r\n{}",
    "chunks within chunks": b"POST /v1/worker/beat HTTP/1.1\r\nHost: localhost\r\n"
    b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": b"GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "a folded header": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\nOrigin:\r\n\r\n",
    "NUL in a header": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
    "no HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50,
    "HTTP/0.9": b"GET /health\r\n\r\n",
    "HTTP/2 in the clear": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a method of its own": b"HACK /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "CONNECT": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a path that is no ASCII": b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
async def test_what_is_not_http_as_it_should_be_is_refused(tmp_path: Path, data: bytes) -> None:
    async with guarded(tmp_path) as server:
        reply = await exchange(server.address, data)
        assert (reply.status, reply.code) == (400, "bad_request"), reply
        assert (await exchange(server.address, request("GET", routes.HEALTH, server.address))).status == 200


async def test_an_upgrade_is_not_taken(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        for to in ("websocket", "h2c"):
            data = request(
                "GET", routes.INFO, server.address, upgrade=to, connection="Upgrade", sec_websocket_key="x" * 24
            )
            assert (await exchange(server.address, data)).status == 401


async def test_headers_that_never_end_are_cut_off(tmp_path: Path) -> None:
    limits = Limits(head_seconds=0.4)
    async with guarded(tmp_path, limits) as server, connected(server.address) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\nHost: loc")
        async with asyncio.timeout(CUT_WITHIN):
            reply = await read_reply(reader)
        assert (reply.status, reply.code) == (408, "request_timeout")
        assert "within 0.4 s" in reply.json["error"]["message"]


async def test_headers_that_trickle_are_cut_off(tmp_path: Path) -> None:
    limits = Limits(head_seconds=0.4)
    async with guarded(tmp_path, limits) as server, connected(server.address) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\n")

        async def trickle() -> None:
            while True:
                writer.write(b"X: y\r\n")
                await asyncio.sleep(0.05)

        drops = asyncio.create_task(trickle())
        try:
            async with asyncio.timeout(CUT_WITHIN):
                assert (await read_reply(reader)).status == 408
        finally:
            drops.cancel()


async def test_the_second_request_on_a_connection_has_no_more_time_than_the_first(tmp_path: Path) -> None:
    limits = Limits(head_seconds=2.0)  # in which the first, whole as it is, arrives anywhere
    async with guarded(tmp_path, limits) as server, connected(server.address) as (reader, writer):
        writer.write(request("GET", routes.HEALTH, server.address))
        assert (await read_reply(reader)).status == 200
        writer.write(b"GET /health HTTP/1.1\r\nHost: loc")
        async with asyncio.timeout(CUT_WITHIN):
            assert (await read_reply(reader)).status == 408


@pytest.mark.parametrize("data", [b"", b"\r\n", b"\r\n" * 20])
async def test_a_connection_that_says_nothing_is_closed(tmp_path: Path, data: bytes) -> None:
    limits = Limits(head_seconds=0.4)
    async with guarded(tmp_path, limits) as server, connected(server.address) as (reader, writer):
        writer.write(data)
        async with asyncio.timeout(CUT_WITHIN):
            await reader.read()


async def test_an_idle_connection_is_closed_even_if_it_sends_empty_lines(tmp_path: Path) -> None:
    limits = Limits(idle_seconds=2.0)
    async with guarded(tmp_path, limits) as server, connected(server.address) as (reader, writer):
        writer.write(request("GET", routes.HEALTH, server.address))
        assert (await read_reply(reader)).status == 200
        writer.write(b"\r\n")
        async with asyncio.timeout(CUT_WITHIN):
            assert await reader.read() == b""


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_that_never_ends_is_cut_off(tmp_path: Path, chunked: bool) -> None:
    limits = Limits(body_seconds=0.4)
    async with guarded(tmp_path, limits) as server, connected(server.address) as (reader, writer):
        length = {"transfer_encoding": "chunked"} if chunked else {"content_length": "100"}
        start = request("POST", routes.BEAT, server.address, key=server.key, content_type="application/json", **length)
        writer.write(start + (b"5\r\n{    \r\n" if chunked else b"{    "))
        async with asyncio.timeout(CUT_WITHIN):
            reply = await read_reply(reader)
        assert (reply.status, reply.code) == (408, "request_timeout")
        assert "within 0.4 s" in reply.json["error"]["message"]


@pytest.mark.parametrize(
    "extra",
    [
        b"".join(b"X-%d: y\r\n" % number for number in range(200)),
        b"X: " + b"y" * (20 * MEGABYTE) + b"\r\n",
        b"X" * (20 * MEGABYTE) + b": y\r\n",
        b"".join(b"X-%d: %s\r\n" % (number, b"y" * 2000) for number in range(40)),
    ],
    ids=["200 headers", "a value of 20 MB", "a name of 20 MB", "80 KB in 40 headers"],
)
async def test_headers_have_bounds(tmp_path: Path, extra: bytes) -> None:
    async with guarded(tmp_path) as server:
        reply = await send_all(server.address, b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + extra + b"\r\n")
        assert (reply.status, reply.code) == (431, "headers_too_large")


async def test_requests_that_come_at_once_are_answered_in_order(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server, connected(server.address) as (reader, writer):
        large = request("POST", routes.EXECUTIONS, server.address, key=server.key, body=b'"' + b"x" * 200_000 + b'"')
        small = request("GET", routes.HEALTH, server.address)
        writer.write(small * 3 + large + small * 3 + large + small[:20])
        found = [(await read_reply(reader)).status for _ in range(8)]
        assert found == [200, 200, 200, 422, 200, 200, 200, 422]
        writer.write(small[20:])
        assert (await read_reply(reader)).status == 200


async def test_an_address_has_bounds(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        reply = await send_all(server.address, request("GET", "/health?" + "x" * (2 * MEGABYTE), server.address))
        assert (reply.status, reply.code) == (431, "headers_too_large")


async def test_bodies_have_bounds_by_route(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        for path, size in ((routes.EXECUTIONS, 10 * MEGABYTE), ("/v1/approvals/a/decision", 70_000)):
            reply = await send_all(
                server.address, request("POST", path, server.address, key=server.key, body=b" " * size)
            )
            assert (reply.status, reply.code) == (413, "body_too_large")
            start = request(
                "POST",
                path,
                server.address,
                key=server.key,
                content_type="application/json",
                transfer_encoding="chunked",
            )
            piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
            reply = await send_all(server.address, start + piece * (size // 65536 + 1) + b"0\r\n\r\n")
            assert (reply.status, reply.code) == (413, "body_too_large")


async def test_a_refused_body_leaves_the_connection_usable(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server, connected(server.address) as (reader, writer):
        writer.write(request("POST", routes.EXECUTIONS, server.address, body=b" " * (2 * MEGABYTE)))
        assert (await read_reply(reader)).status == 401
        writer.write(request("GET", routes.HEALTH, server.address))
        assert (await read_reply(reader)).status == 200


async def test_a_client_that_asks_first_is_answered_before_it_sends(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server, connected(server.address) as (reader, writer):
        ask = {"expect": "100-continue", "content_type": "application/json"}
        writer.write(request("POST", routes.BEAT, server.address, content_length="12", **ask))
        assert (await read_reply(reader)).status == 401  # and not 100
    async with guarded(tmp_path) as server, connected(server.address) as (reader, writer):
        writer.write(request("POST", routes.BEAT, server.address, key=server.key, content_length="12", **ask))
        assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        writer.write(b'{"worker":1}')
        await reader.readline()
        assert (await read_reply(reader)).status == 422


async def test_one_connection_too_many_is_turned_away(tmp_path: Path) -> None:
    async with guarded(tmp_path, Limits(connections=16)) as server:
        async with AsyncExitStack() as held:
            for _ in range(16):
                await held.enter_async_context(connected(server.address))
            reply = await exchange(server.address, request("GET", routes.HEALTH, server.address))
            assert (reply.status, reply.code) == (503, "busy")
        await until_status(server.address, request("GET", routes.HEALTH, server.address), 200)


async def test_a_thousand_slow_clients_do_not_keep_the_others_waiting(tmp_path: Path) -> None:
    async with guarded(tmp_path, Limits(head_seconds=3.0)) as server, AsyncExitStack() as held:
        slow = [await held.enter_async_context(connected(server.address)) for _ in range(1000)]
        for _, writer in slow:
            writer.write(b"GET /health HTTP/1.1\r\nHost: lo")
        first_cut = asyncio.create_task(read_reply(slow[-1][0]))
        assert (await exchange(server.address, request("GET", routes.HEALTH, server.address))).status == 200
        assert not first_cut.done()  # the slow ones were all still there
        async with asyncio.timeout(CUT_WITHIN):
            replies = [await first_cut, *[await read_reply(reader) for reader, _ in slow[:-1]]]
        assert {reply.status for reply in replies} == {408}


def test_300_megabytes_of_body_or_headers_do_not_fill_the_memory(tmp_path: Path) -> None:
    with process(tmp_path / "s.db") as server:
        beside = {"content_type": "application/json"}
        known = request("POST", routes.EXECUTIONS, server.address, key=server.key, content_length="314572800", **beside)
        pieces = request(
            "POST", routes.EXECUTIONS, server.address, key=server.key, transfer_encoding="chunked", **beside
        )
        nobody = request("POST", routes.EXECUTIONS, server.address, content_length="314572800", **beside)
        header = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: "
        asyncio.run(_warm(server.address))
        before = server.memory_bytes()
        for start, piece in (
            (known, b" " * MEGABYTE),
            (pieces, b"100000\r\n" + b" " * MEGABYTE + b"\r\n"),
            (nobody, b" " * MEGABYTE),
            (header, b"y" * MEGABYTE),
        ):
            status = asyncio.run(_pour(server.address, start, piece, 300))
            assert status in (413, 401, 431, 0)
            assert server.memory_bytes() - before < 40 * MEGABYTE
        asyncio.run(_warm(server.address))


async def _warm(address: Address) -> None:
    assert (await exchange(address, request("GET", routes.HEALTH, address))).status == 200


async def _pour(address: Address, start: bytes, piece: bytes, times: int) -> int:
    """Send a lot, for as long as it is taken. Return the status of the reply, 0 if the connection broke before."""
    async with connected(address) as (reader, writer):
        writer.write(start)
        reply = asyncio.create_task(read_reply(reader))
        try:
            for _ in range(times):
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass  # the server has seen enough
        async with asyncio.timeout(CUT_WITHIN):
            return (await reply).status


async def send_all(address: Address, data: bytes) -> Reply:
    """Send more than sockets hold, and read the reply that may come before the end."""
    async with connected(address) as (reader, writer):
        reply = asyncio.create_task(read_reply(reader))
        try:
            writer.write(data)
            await writer.drain()
        except ConnectionError:
            pass  # the server has seen enough
        async with asyncio.timeout(CUT_WITHIN):
            return await reply
