"""Two servers over one store: one asks models, at the other somebody looks on. What is told, how much, and what not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine_bench import HOLDER, Bench
from node_bench import PATIENCE, wait_until
from perdure import failpoints
from perdure.engine.relay import Watching, relayed
from perdure.models.port import TextDelta
from perdure.server import relay as module
from perdure.server.bridge import Bridge
from perdure.server.hub import Hub
from perdure.server.live import LiveText, LiveTexts
from perdure.server.relay import Relay
from perdure.store.protocol import Row
from perdure.store.tx import Note
from perdure.store.writer import ThreadedWriter
from perdure.system import SystemClock, SystemRandom
from perdure.testing.clock import FakeClock, SeededRandom
from which_store import open_store

pytestmark = [pytest.mark.anyio, pytest.mark.both_stores]

ADDRESS = "turn 1/model"
HEAD = 1
"""The last event of an execution that was started."""


@dataclass
class Two:
    """The relays of two servers, and what they stand on."""

    bridge: Bridge
    texts: LiveTexts
    asking: Relay
    """Of the server that asks the models."""
    reading: Relay
    """Of the one where somebody looks on."""
    executions: Sequence[str]
    now_ms: int

    async def look(self, relay: Relay, *followed: str) -> list[Note]:
        """Look once, as a server does."""
        watching = relay.watching(followed)
        seen = await self.bridge.read(lambda reads: relayed(reads, watching, self.now_ms))
        return relay.found(seen, self.now_ms)

    async def heard(self, followed: Sequence[str], *wanted: str | None) -> list[LiveText]:
        """Look by turns until this is heard of these executions: a text, or that one is told elsewhere."""
        async with asyncio.timeout(PATIENCE):
            while True:
                await self.look(self.reading, *followed)
                await self.look(self.asking)
                found = [one for execution in followed for one in self.reading.of(execution, HEAD)]
                if [one.between(0, one.length) if one.told else None for one in found] == list(wanted):
                    return found
                await asyncio.sleep(0.01)

    async def rows(self, execution: str) -> list[Row]:
        """Return what is told of an execution."""
        seen = await self.bridge.read(lambda reads: relayed(reads, Watching((), {execution: {}}), self.now_ms))
        return [row for row in seen.told[execution] if row["reply"] is not None]

    def begin(self, execution: str, text: str = "", *, attempt: int = 1) -> LiveText:
        """Have a model asked, which says something."""
        made = LiveText(ADDRESS, attempt, 1)
        self.texts.begin(execution, made)
        self.say(execution, made, text)
        return made

    def say(self, execution: str, made: LiveText, text: str) -> None:
        self.texts.hear(execution, made, TextDelta(text))


@asynccontextmanager
async def two(folder: Path, executions: int = 1) -> AsyncIterator[Two]:
    """Have them, with executions that the first one holds; what there is to tell is told while the block lasts."""
    store = open_store(folder / "p.db", clock=FakeClock(), random=SeededRandom())
    bench = Bench(store, FakeClock())
    ids = [bench.owned().ref.execution for _ in range(executions)]
    with store.write() as connection:
        now_ms = connection.now_ms
    writer, clock, texts = ThreadedWriter(store), SystemClock(), LiveTexts(Hub())
    bridge, random = Bridge(store, writer), SystemRandom()
    asking = Relay(texts, HOLDER, bridge, clock, random)
    reading = Relay(LiveTexts(Hub()), "srv_2", bridge, clock, random)
    telling = asyncio.create_task(asking.run())
    try:
        yield Two(bridge, texts, asking, reading, ids, now_ms)
        assert not telling.done()
    finally:
        telling.cancel()
        await asyncio.wait((telling,))
        writer.stop()
        bridge.close()
        store.close()


async def test_a_text_is_heard_where_somebody_looks_on_and_nothing_is_written_before(tmp_path: Path) -> None:
    async with two(tmp_path) as servers:
        [execution] = servers.executions
        made = servers.begin(execution, "Hello")
        for _ in range(3):
            await servers.look(servers.asking)
        assert await servers.rows(execution) == []
        [first] = await servers.heard([execution], "Hello")
        servers.say(execution, made, " there")
        [second] = await servers.heard([execution], "Hello there")
        assert first is second, "a reader goes on in it"
        assert (second.address, second.attempt, second.fence) == (ADDRESS, 1, 1)
        servers.texts.end(execution, made)
        await servers.heard([execution])
        assert await servers.rows(execution) == []


async def test_another_attempt_is_another_text(tmp_path: Path) -> None:
    async with two(tmp_path) as servers:
        [execution] = servers.executions
        servers.begin(execution, "Hello")
        [first] = await servers.heard([execution], "Hello")
        servers.begin(execution, attempt=2)
        [second] = await servers.heard([execution], "")
        assert (first.attempt, second.attempt) == (1, 2)


async def test_who_knows_another_log_than_the_look_is_told_nothing(tmp_path: Path) -> None:
    async with two(tmp_path) as servers:
        [execution] = servers.executions
        servers.begin(execution, "Hello")
        await servers.heard([execution], "Hello")
        assert [len([*servers.reading.of(execution, after)]) for after in (HEAD - 1, HEAD, HEAD + 1)] == [0, 1, 0]


async def test_readers_are_to_look_when_there_is_news_and_only_then(tmp_path: Path) -> None:
    async with two(tmp_path) as servers:
        [execution] = servers.executions
        made = servers.begin(execution, "Hello")
        await servers.heard([execution], "Hello")
        assert await servers.look(servers.reading, execution) == []
        servers.say(execution, made, " there")
        told = await wait_until(lambda: servers.look(servers.reading, execution))
        assert told == [Note("live", execution)]


async def test_what_this_server_asks_itself_it_does_not_listen_for(tmp_path: Path) -> None:
    async with two(tmp_path) as servers:
        [execution] = servers.executions
        servers.begin(execution, "Hello")
        await servers.heard([execution], "Hello")
        assert servers.asking.watching([execution]) == Watching([execution], {})
        [text] = servers.texts.of(execution)
        servers.texts.end(execution, text)  # and its record is not there yet
        await servers.look(servers.asking, execution)
        assert [*servers.asking.of(execution, HEAD)] == []


async def test_more_than_there_is_room_for_are_said_to_be_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_REPLIES", 1)
    async with two(tmp_path, executions=2) as servers:
        first, second = servers.executions
        made = servers.begin(first, "one")
        await servers.heard([first], "one")
        servers.begin(second, "two")
        await servers.heard([first, second], "one", None)
        servers.texts.end(first, made)
        await servers.heard([first, second], "two")


async def test_a_flood_is_told_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHARACTERS", 10)
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.01)
    async with two(tmp_path, executions=2) as servers:
        first, second = servers.executions
        servers.begin(first, "x" * 25)
        servers.begin(second, "yy")
        await servers.heard([first, second], "x" * 25, "yy")
        begins = [row["begins"] for row in await servers.rows(first)]
        assert max(after - before for before, after in zip([0, *begins], [*begins, 25], strict=True)) <= 10


async def test_when_nobody_knows_what_was_told_it_is_told_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AWAY_SECONDS", 0.01)
    async with two(tmp_path) as servers:
        [execution] = servers.executions
        made = servers.begin(execution, "Hello")
        [first] = await servers.heard([execution], "Hello")

        async def anew() -> bool:
            return (await servers.heard([execution], "Hello there"))[0] is not first

        failpoints.arm("tell_onlookers.after_commit=raise@1")
        try:
            servers.say(execution, made, " there")
            await wait_until(anew)
        finally:
            failpoints.arm("")
        assert len({row["reply"] for row in await servers.rows(execution)}) == 1
