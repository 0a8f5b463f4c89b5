"""Those who look on while a model speaks: servers whose model has gates, and what comes to a reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from http_server import Server, open_node, serving_node, start_request
from perdure import AgentEvent
from perdure.client.stream_events import ReplyDelta
from perdure.core.events import Event, Kind
from perdure.core.live import Delta, LiveNews
from perdure.models.catalog import Catalog
from perdure.server.executor import ExecutorOptions
from perdure.server.node import Node, Parts
from perdure.store.postgres import open_postgres
from perdure.system import SystemClock, SystemRandom
from perdure.wire import frames
from raw_http import request
from speaking import FOLDER, Gates, piece, said, speak

PATIENCE = 60.0
ADDRESS = "turn 1/model"


def gates_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Gates:
    """Return the gates of the models of this process."""
    folder.mkdir()
    monkeypatch.setenv(FOLDER, str(folder))
    return Gates(folder)


def models() -> Catalog:
    """Return the model that speaks."""
    return Catalog(scripted={"speaker": speak}, environ={})


@asynccontextmanager
async def serving(place: Path) -> AsyncGenerator[Server]:
    """Run a server whose model speaks."""
    node = await asyncio.to_thread(open_node, place, models())
    async with serving_node(node) as server, asyncio.timeout(PATIENCE):
        yield server


@asynccontextmanager
async def serving_on(database: str, *, capacity: int = 500) -> AsyncGenerator[Server]:
    """Run one more server on a database. `capacity`: executions it drives at a time; with 0 others have to."""
    clock, random = SystemClock(), SystemRandom()
    store = await asyncio.to_thread(open_postgres, database, random=random)
    options = ExecutorOptions(capacity=capacity)
    node = Node(store, Parts(models(), clock, random, options), nonce=random.token(16).hex())
    await asyncio.to_thread(node.start)
    async with serving_node(node) as server:
        yield server


async def begin(server: Server) -> str:
    """Begin an execution whose model speaks; return its id."""
    return (await server.api().start(start_request("speaker"))).id


async def heard(news: AsyncIterator[Event | LiveNews], attempt: int, text: str) -> list[Delta]:
    """Return the pieces that come until an attempt has said a text. What came of it before is in `text`."""
    found: list[Delta] = []
    async for one in news:
        if isinstance(one, Delta):
            found.append(one)
            if (one.attempt, one.offset + len(one.text)) == (attempt, len(text)):
                assert text.endswith(one.text)
                return found
    raise AssertionError(f"{text!r} never came: {found}")


async def looks_on(server: Server, execution: str, gates: Gates) -> list[Event]:
    """See what a reader at this server should: each piece, all of it if late, then the record. Return the log."""
    news = server.api().follow_live(execution)
    gates.let(1, 1)
    assert await heard(news, 1, said(1, 1)) == [Delta(ADDRESS, 1, 0, piece(1, 1))]
    gates.let(1, 2)
    assert await heard(news, 1, said(1, 2)) == [Delta(ADDRESS, 1, len(piece(1, 1)), piece(1, 2))]
    # Whoever comes late is told all of it first, in this process and over HTTP.
    for late in (server.node.api("default").follow_live(execution), server.api().follow_live(execution)):
        assert await heard(late, 1, said(1, 2)) == [Delta(ADDRESS, 1, 0, said(1, 2))]
    gates.end(1)
    ends = [one for one in await rest(news) if not isinstance(one, Delta)]
    assert ends == [Kind.STEP_RECORDED, Kind.COMPLETED]
    log = await server.api().events(execution)
    assert [event.kind for event in log] == [Kind.STARTED, *ends]
    assert [event async for event in server.api().follow_live(execution)] == log
    return log


async def until_said(stream: AsyncIterator[AgentEvent], attempt: int, text: str) -> list[AgentEvent]:
    """Return what a program is told until an attempt has said so much."""
    seen: list[AgentEvent] = []
    async for one in stream:
        seen.append(one)
        if isinstance(one, ReplyDelta) and (one.attempt, one.offset + len(one.text)) == (attempt, len(text)):
            return seen
    raise AssertionError(f"{text!r} never came: {seen}")


async def rest(news: AsyncIterator[Event | LiveNews]) -> list[Any]:
    """Return the kinds of the events, and all else, that come until the end."""
    return [one.kind if isinstance(one, Event) else one for one in [one async for one in news]]


@asynccontextmanager
async def streamed(server: Server, path: str, **headers: str) -> AsyncGenerator[asyncio.StreamReader]:
    """Open a stream by hand, behind its head."""
    reader, writer = await asyncio.open_connection(*server.address)
    given = {"accept": frames.MEDIA_TYPE, **headers}
    writer.write(request("GET", path, server.address, key=server.key, **given))
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        yield reader
    finally:
        writer.transport.abort()


async def until(found: AsyncIterator[Any], kind: str) -> AsyncGenerator[Any]:
    """Yield frames until one of a kind has come."""
    async for frame in found:
        yield frame
        if frame.kind == kind:
            return
