"""What a model says is seen as it comes at other servers of the database; where nobody looks on, that costs nothing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import orjson
import psycopg
import pytest

import postgres_server
from cli_processes import Home
from cli_processes import until as until_true
from looking_on import (
    ADDRESS,
    PATIENCE,
    begin,
    gates_in,
    heard,
    looks_on,
    rest,
    serving_on,
    streamed,
    until,
    until_said,
)
from perdure import Agent, AgentRuntime
from perdure.client.stream_events import ExecutionCompleted, ExecutionTakenOver, ModelReplied, ReplyDelta
from perdure.core.events import Event, Kind
from perdure.core.live import Delta, LiveNews, Reset
from perdure.server import relay
from perdure.wire import routes
from poolers import pooled
from postgres_standby import folder_of
from raw_http import frames_of
from speaking import Gates, piece, said

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

TABLES = ("relay_onlookers", "relay_replies", "relay_pieces")


@pytest.fixture
def gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gates:
    return gates_in(tmp_path / "gates", monkeypatch)


def count_writes(database: str) -> None:
    """Have the database count, from now on, every row that is written to tell it to others."""
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("CREATE TABLE relay_written (n BIGINT)")
        admin.execute(
            "CREATE FUNCTION relay_count() RETURNS trigger LANGUAGE plpgsql "
            "AS $$ BEGIN INSERT INTO relay_written VALUES (1); RETURN NULL; END $$"
        )
        for table in TABLES:
            made = f"CREATE TRIGGER counted AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW"
            admin.execute(f"{made} EXECUTE FUNCTION relay_count()".encode())


def written(database: str) -> int:
    """Return how many were."""
    return _number(database, "SELECT COUNT(*) FROM relay_written")


def left(database: str) -> int:
    """Return how much lies there of replies."""
    return _number(database, "SELECT (SELECT COUNT(*) FROM relay_replies) + (SELECT COUNT(*) FROM relay_pieces)")


def _number(database: str, query: str) -> int:
    with psycopg.connect(database) as admin:
        row = admin.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


async def nothing_left(database: str) -> None:
    """Return once it was all taken away."""
    while await asyncio.to_thread(left, database):  # noqa: ASYNC110 - it is done by a server
        await asyncio.sleep(0.01)


@contextmanager
def reached(kind: str, database: str) -> Iterator[str]:
    """Yield an address of a database: its own, or that of a pooler before it."""
    folder = folder_of(database)
    with pooled("own", Path(folder)) if kind == "pooled" else nullcontext(Path(folder)) as found:
        yield database.replace(folder, str(found))


@pytest.mark.parametrize("kind", ["direct", "pooled"])
async def test_a_reader_at_another_server_sees_it_as_it_comes(kind: str, postgres_database: str, gates: Gates) -> None:
    with reached(kind, postgres_database) as address:
        async with asyncio.timeout(PATIENCE), serving_on(address) as producer, serving_on(address, capacity=0) as other:
            await looks_on(other, await begin(producer), gates)
            await nothing_left(postgres_database)


async def test_an_attempt_takes_the_place_of_one_that_broke_off(postgres_database: str, gates: Gates) -> None:
    database = postgres_database
    async with asyncio.timeout(PATIENCE), serving_on(database) as producer, serving_on(database, capacity=0) as other:
        execution = await begin(producer)
        news = other.api().follow_live(execution)
        gates.let(1, 2)
        await heard(news, 1, said(1, 2))
        gates.cut(1)
        assert await heard(news, 2, "") == [Delta(ADDRESS, 2, 0, "")]
        gates.let(2, 1)
        assert await heard(news, 2, said(2, 1)) == [Delta(ADDRESS, 2, 0, piece(2, 1))]
        gates.end(2)
        assert Kind.STEP_RECORDED in await rest(news)


async def test_the_feed_of_a_browser_at_another_server_carries_it(postgres_database: str, gates: Gates) -> None:
    database = postgres_database
    async with asyncio.timeout(PATIENCE), serving_on(database) as producer, serving_on(database, capacity=0) as other:
        execution = await begin(producer)
        gates.let(1, 1)
        async with streamed(other, f"{routes.FEED}?follow={execution}") as reader:
            found = frames_of(reader)
            given = orjson.loads([frame async for frame in until(found, "delta")][-1].data)
            assert given["execution"] == execution
            assert given["news"] == {"address": ADDRESS, "attempt": 1, "offset": 0, "text": piece(1, 1)}
            gates.end(1)
            kinds = [frame.kind async for frame in until(found, "end")]
        assert kinds.count("log") == 2


async def test_where_nobody_looks_on_elsewhere_nothing_is_written(postgres_database: str, gates: Gates) -> None:
    database = postgres_database
    async with asyncio.timeout(PATIENCE), serving_on(database) as producer, serving_on(database, capacity=0) as other:
        count_writes(database)
        execution = await begin(producer)
        news, quiet = producer.api().follow_live(execution), other.api().follow(execution)
        await event(quiet, 1)
        gates.let(1, 2)
        await heard(news, 1, said(1, 2))
        for sender, reader in ((other, news), (producer, quiet)):  # each server hears of the other by looking
            for number in (1, 2):
                await event(reader, await sender.api().send(execution, "well?", dedupe=f"{sender.url} {number}"))
        gates.end(1)
        await rest(news)
        assert await asyncio.to_thread(written, database) == 0
        with psycopg.connect(database) as admin:
            admin.execute("INSERT INTO relay_onlookers VALUES (0, 'exe_1', 0, 0)")
        assert await asyncio.to_thread(written, database) == 1, "it does count"


async def event(news: AsyncIterator[Event | LiveNews], seq: int) -> None:
    """Return once an event has come."""
    async for one in news:
        if isinstance(one, Event) and one.seq == seq:
            return
    raise AssertionError(f"{seq} never came")


async def test_more_than_a_server_tells_is_said_to_be_elsewhere(
    postgres_database: str, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "MOST_REPLIES", 0)
    database = postgres_database
    async with asyncio.timeout(PATIENCE), serving_on(database) as producer, serving_on(database, capacity=0) as other:
        execution = await begin(producer)
        news = other.api().follow_live(execution)
        gates.let(1, 1)
        assert (await anext(aiter(news))) == (await other.api().events(execution))[0]
        assert await anext(aiter(news)) == Reset("elsewhere")
        gates.end(1)
        assert await rest(news) == [Kind.STEP_RECORDED, Kind.COMPLETED]


async def test_a_database_that_crashed_is_told_it_anew(gates: Gates) -> None:
    binaries = postgres_server.find_binaries()
    assert binaries, "no PostgreSQL binaries"
    with postgres_server.running_server(binaries) as database:
        at = database.address
        async with asyncio.timeout(PATIENCE), serving_on(at) as producer, serving_on(at, capacity=0) as other:
            execution = await begin(producer)
            news = other.api().follow_live(execution)
            gates.let(1, 1)
            await heard(news, 1, said(1, 1))
            await asyncio.to_thread(database.crash)
            gates.let(1, 2)
            await asyncio.to_thread(database.start)
            [anew] = await heard(news, 1, said(1, 2))
            assert anew == Delta(ADDRESS, 1, 0, said(1, 2)), "what was told before is in no table any more"
            gates.end(1)
            ends = [one for one in await rest(news) if not isinstance(one, Delta)]
            assert ends == [Kind.STEP_RECORDED, Kind.COMPLETED]


async def test_over_the_death_of_the_server_that_asked_it_begins_anew(tmp_path: Path, postgres_database: str) -> None:
    home = Home(tmp_path)
    gates = Gates(tmp_path / "gates")
    gates.folder.mkdir()
    home.extra |= gates.environ
    options = ("--script", "speaker=speaking:speak", "--lease-ms", "1500", "--store", postgres_database)
    try:
        first = await asyncio.to_thread(home.serve, *options)
        agent = Agent(name="speaker", model="scripted/speaker", instructions="Speak.")
        async with AgentRuntime(first.url, api_key=first.ready["key"], serve_tools=False) as runtime:
            execution = (await runtime.start_async(agent, "go")).execution_id
            await asyncio.to_thread(until_true, lambda: gates.begun(1), "a model that is asked")
        second = await asyncio.to_thread(home.serve, *options)
        async with AgentRuntime(second.url, api_key=first.ready["key"], serve_tools=False) as runtime:
            stream = aiter(runtime.attach(execution).stream())
            async with asyncio.timeout(PATIENCE):
                gates.let(1, 2)
                seen = await until_said(stream, 1, said(1, 2))
                await asyncio.to_thread(first.end, signal.SIGKILL)
                gates.let(2, 1)
                seen += await until_said(stream, 2, said(2, 1))
                gates.end(2)
                seen += [one async for one in stream]
    finally:
        home.close()
    pieces = [one for one in seen if isinstance(one, ReplyDelta)]
    assert [one.attempt for one in pieces] == sorted(one.attempt for one in pieces)
    assert {one.attempt: one.offset for one in reversed(pieces)} == {1: 0, 2: 0}, "each from its beginning"
    assert [type(one) for one in seen if not isinstance(one, ReplyDelta)][-3:] == [
        ExecutionTakenOver,
        ModelReplied,
        ExecutionCompleted,
    ]
