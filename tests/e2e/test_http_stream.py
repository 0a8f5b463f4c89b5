"""Event streams: no gap, no repeat, wherever they are cut and however slowly they are read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cutting_proxy import cutting
from http_server import Server, process, serving, start_request
from perdure.client.http import HttpApi
from perdure.core.events import Event, Kind
from perdure.server.options import Limits, ServeOptions
from perdure.system import SystemClock
from perdure.wire import frames, routes
from perdure.wire.frames import Frame
from raw_http import exchange, frames_of, request, until_status

pytestmark = pytest.mark.anyio


BEAT = Frame("", b"beat")


class Hurried(SystemClock):
    """A clock whose sleeps are short: who waits for a server to come back need not be gentle here."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.005))


async def talk(server: Server, messages: int, *, size: int = 50) -> str:
    """Return an execution with so many messages in its log, and its end."""
    api = server.node.api("default")
    started = await api.start(start_request("approval"))
    for number in range(messages):
        await api.send(started.id, f"{number} " + "x" * size)
    await api.cancel(started.id)
    async for _ in api.follow(started.id):
        pass
    return started.id


def ask_stream(server: Server, execution: str, *, query: str = "", **headers: str) -> bytes:
    path = routes.fill(routes.EVENTS, execution=execution) + query
    return request("GET", path, server.address, key=server.key, accept=frames.MEDIA_TYPE, **headers)


@asynccontextmanager
async def stream(
    server: Server, execution: str, *, query: str = "", **headers: str
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open an event stream by hand and read its head."""
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(ask_stream(server, execution, query=query, **headers))
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        yield reader, writer
    finally:
        writer.transport.abort()


async def collected(api: HttpApi, execution: str) -> list[Event]:
    return [event async for event in api.follow(execution)]


async def test_a_stream_cut_anywhere_goes_on_exactly_there(tmp_path: Path) -> None:
    dice = random.Random(4711)
    async with serving(tmp_path / "s.db") as server:
        execution = await talk(server, 120)
        whole = await server.node.api("default").events(execution)
        cuts = 0

        def budgets() -> Iterator[int]:
            nonlocal cuts
            while True:
                cuts += 1
                yield dice.choice((1, 150, 400, 700, 2_000, 5_000)) + dice.randrange(300)

        async with cutting(server.address, budgets()) as url:
            for _ in range(10):
                api = HttpApi(url, server.key, clock=Hurried())
                api._channel.met = True  # the first connection may be cut before it says anything
                assert await collected(api, execution) == whole
                await api.aclose()
        assert cuts > 100


async def test_a_log_is_followed_while_it_is_written(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        api = server.node.api("default")
        started = await api.start(start_request("approval"))
        followers = [asyncio.create_task(collected(server.api(), started.id)) for _ in range(5)]
        for number in range(60):
            await api.send(started.id, str(number))
        await api.cancel(started.id)
        whole = [event async for event in api.follow(started.id)]
        assert [event.seq for event in whole] == list(range(1, len(whole) + 1))
        for follower in followers:
            assert await follower == whole


@pytest.mark.both_stores
async def test_a_follower_outlives_the_server(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with process(path) as first:
        port = first.address[1]
        api = HttpApi(first.url, first.key, clock=Hurried())
        started = await api.start(start_request("approval"))
        seen: list[Event] = []
        enough = asyncio.Event()

        async def follow() -> None:
            async for event in api.follow(started.id):
                seen.append(event)
                enough.set()

        follower = asyncio.create_task(follow())
        await enough.wait()
    with process(path, f"port={port}") as second:  # the first one was killed
        other = HttpApi(second.url, second.key)
        await other.cancel(started.id)
        async with asyncio.timeout(60):
            await follower
        assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
        assert seen == await other.events(started.id)
        for client in (api, other):
            await client.aclose()


async def test_what_the_client_saw_last_counts(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution = await talk(server, 5)
        for query, headers, first in (
            ("", {}, 1),
            ("?after=3", {}, 4),
            ("", {"last_event_id": "2"}, 3),
            ("?after=1", {"last_event_id": "4"}, 5),
        ):
            async with stream(server, execution, query=query, **headers) as (reader, _):
                found = [frame async for frame in frames_of(reader)]
            events = [frame for frame in found if frame.kind in set(Kind)]
            assert f'"seq":{first},'.encode() in events[0].data
            assert found[-1].kind == frames.DONE_KIND


async def test_a_last_event_that_is_no_number_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        path = routes.fill(routes.EVENTS, execution=await talk(server, 1))
        for given in ("x", "-1", "1.5", "9" * 30):
            data = request("GET", path, server.address, key=server.key, accept=frames.MEDIA_TYPE, last_event_id=given)
            assert (await exchange(server.address, data)).code == "invalid_input"


async def test_a_stream_of_nothing_is_not_found(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        assert (await exchange(server.address, ask_stream(server, "exe_unknown"))).code == "not_found"


async def test_a_silent_stream_beats_without_ids(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db", ServeOptions(beat_seconds=0.05)) as server:
        started = await server.api().start(start_request("approval"))
        async with stream(server, started.id) as (reader, _):
            found = frames_of(reader)
            while (await anext(found)).kind != Kind.WAIT_OPENED:  # the last that happens
                pass
            assert [await anext(found), await anext(found)] == [BEAT, BEAT]


async def test_who_does_not_read_is_dropped_and_goes_on_later(tmp_path: Path) -> None:
    limits = Limits(stuck_seconds=0.5, streams=1)
    async with serving(tmp_path / "s.db", ServeOptions(limits=limits)) as server:
        execution = await talk(server, 30, size=500_000)
        async with stream(server, execution):  # and never read it
            await until_status(server.address, ask_stream(server, execution), 200)  # the only place is free again
        whole = await collected(server.api(), execution)
        assert [event.seq for event in whole] == list(range(1, len(whole) + 1))


async def test_streams_have_a_bound_for_each_company(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db", ServeOptions(limits=Limits(streams=2))) as server:
        started = await server.api().start(start_request("approval"))
        other = replace(server, key="pdk_" + "o" * 43)
        await server.node.add_key("acme", "ada", other.key)
        theirs = await other.api(other.key).start(start_request("approval"))
        async with stream(server, started.id), stream(server, started.id):
            reply = await exchange(server.address, ask_stream(server, started.id))
            assert (reply.status, reply.code, reply.headers["retry-after"]) == (503, "busy", "1")
            async with stream(other, theirs.id):
                pass
        await until_status(server.address, ask_stream(server, started.id), 200)  # their clients are gone


async def test_a_server_that_leaves_ends_streams_without_done(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as server:
        started = await server.api().start(start_request("approval"))
        async with stream(server, started.id) as (reader, _):
            kinds: list[str] = []
            async for frame in frames_of(reader):
                kinds.append(frame.kind)
                server.stop.set()
        assert "started" in kinds
        assert frames.DONE_KIND not in kinds
