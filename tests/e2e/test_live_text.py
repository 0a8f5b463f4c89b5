"""What a model says is seen while it says it, by whoever looks on, from whenever; what is recorded is as ever."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest

from http_server import Server
from looking_on import ADDRESS, PATIENCE, begin, gates_in, heard, looks_on, models, rest, serving, streamed, until
from perdure import Agent, AgentEvent, AgentRuntime
from perdure.client.stream_events import ReplyDelta
from perdure.core.events import Kind
from perdure.core.live import Delta
from perdure.wire import routes
from raw_http import frames_of
from speaking import Gates, piece, said
from which_store import store_at

pytestmark = pytest.mark.anyio


@pytest.fixture
def gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gates:
    return gates_in(tmp_path / "gates", monkeypatch)


@pytest.mark.both_stores
async def test_text_comes_piece_by_piece_and_then_the_record(tmp_path: Path, gates: Gates) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution = await begin(server)
        # Of what was told nothing is in the log, and nothing is told of what is.
        log = await looks_on(server, execution, gates)
        assert log[1].data["value"]["reply"]["text"] == said(1)
        assert log[1].data["value"]["reply"]["usage"]["output_tokens"] == 11


async def test_an_attempt_takes_the_place_of_one_that_broke_off(tmp_path: Path, gates: Gates) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution = await begin(server)
        news = server.api().follow_live(execution)
        gates.let(1, 2)
        await heard(news, 1, said(1, 2))
        gates.cut(1)
        assert await heard(news, 2, "") == [Delta(ADDRESS, 2, 0, "")]
        gates.let(2, 1)
        assert await heard(news, 2, said(2, 1)) == [Delta(ADDRESS, 2, 0, piece(2, 1))]
        gates.end(2)
        assert Kind.STEP_RECORDED in await rest(news)
        [recorded] = [one for one in await server.api().events(execution) if one.kind is Kind.STEP_RECORDED]
        assert recorded.data["value"]["requests"] == 2
        assert recorded.data["value"]["reply"]["text"] == said(2)


async def test_such_a_frame_has_no_id_and_who_comes_back_misses_no_event(tmp_path: Path, gates: Gates) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution = await begin(server)
        gates.let(1, 1)
        path = routes.fill(routes.EVENTS, execution=execution)
        async with streamed(server, path) as reader:
            raw = await reader.readuntil(b"}\n\n\r\n")
            while b"event: delta" not in raw:
                raw += await reader.readuntil(b"}\n\n\r\n")
        assert b"id: 1\nevent: started\n" in raw
        assert b"\r\nevent: delta\n" in raw, "a chunk of its own that begins with its kind"
        gates.end(1)
        await server.api().wait(execution)
        async with streamed(server, path, last_event_id="1") as reader:
            kinds = [frame.kind async for frame in frames_of(reader) if frame.kind]
        assert kinds == ["step_recorded", "completed", "done"]


async def test_who_reads_late_gets_larger_pieces_and_who_reads_too_late_the_record(
    tmp_path: Path, gates: Gates
) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution = await begin(server)
        api = server.node.api("default")
        late, too_late = api.follow_live(execution), api.follow_live(execution)
        for reader in (late, too_late):
            assert (await anext(reader)).kind is Kind.STARTED  # type: ignore[union-attr]
        gates.let(1, 2)
        await heard(server.api().follow_live(execution), 1, said(1, 2))
        assert await anext(late) == Delta(ADDRESS, 1, 0, said(1, 2))
        gates.end(1)
        await api.wait(execution)
        assert await rest(too_late) == [Kind.STEP_RECORDED, Kind.COMPLETED]


async def test_a_stream_may_be_without_it(tmp_path: Path, gates: Gates) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution = await begin(server)
        gates.let(1, 1)
        await heard(server.api().follow_live(execution), 1, said(1, 1))
        path = routes.fill(routes.EVENTS, execution=execution) + "?live=false"
        async with streamed(server, path) as reader:
            gates.end(1)
            kinds = [frame.kind async for frame in frames_of(reader) if frame.kind]
        assert kinds == ["started", "step_recorded", "completed", "done"]
        assert [event.kind async for event in server.api().follow(execution)] == kinds[:-1]


async def test_the_feed_of_a_browser_carries_it(tmp_path: Path, gates: Gates) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution = await begin(server)
        gates.let(1, 2)
        async with streamed(server, f"{routes.FEED}?follow={execution}") as reader:
            found = frames_of(reader)
            told = ""
            while told != said(1, 2):
                given = orjson.loads([frame async for frame in until(found, "delta")][-1].data)
                news = given["news"]
                assert (given["execution"], news["address"], news["attempt"]) == (execution, ADDRESS, 1)
                assert news["offset"] == len(told)
                told += news["text"]
            gates.end(1)
            kinds = [frame.kind async for frame in until(found, "end")]
        assert kinds.count("log") == 2


async def test_another_company_hears_nothing(tmp_path: Path, gates: Gates) -> None:
    async with serving(tmp_path / "s.db") as server:
        execution = await begin(server)
        gates.let(1, 1)
        await heard(server.api().follow_live(execution), 1, said(1, 1))
        theirs = "pdk_" + "o" * 43
        await server.node.add_key("acme", "ada", theirs)
        other = Server(server.node, server.url, theirs, server.stop)
        async with streamed(other, f"{routes.FEED}?follow={execution}") as reader:
            kinds = [frame.kind async for frame in until(frames_of(reader), "unknown")]
        assert "delta" not in kinds


@pytest.mark.sqlite_only("a program that is its own server has a file")
async def test_a_program_with_a_store_of_its_own_sees_it_too(tmp_path: Path, gates: Gates) -> None:
    place = store_at(tmp_path / "p.db")
    async with AgentRuntime(store=place, models=models(), serve_tools=False) as runtime, asyncio.timeout(PATIENCE):
        handle = await runtime.start_async(Agent(name="speaker", model="scripted/speaker"), "go")
        gates.let(1, 1)
        seen: list[AgentEvent] = []
        async for event in handle.stream():
            seen.append(event)
            if isinstance(event, ReplyDelta):
                gates.end(1)
        quiet = [type(event) async for event in handle.stream(live=False)]
        assert (seen[1].seq, seen[1].address) == (1, ADDRESS), "behind the event after which it came"
        assert [type(event) for event in seen if not isinstance(event, ReplyDelta)] == quiet
