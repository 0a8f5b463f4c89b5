"""The sweep's idea of the store's clock: right after a step of the wall clock, and asked for rarely."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.server.bridge import Bridge
from perdure.server.store_time import StoreTime
from perdure.store.writer import ThreadedWriter
from perdure.testing.clock import START_WALL_MS, FakeClock, SeededRandom
from which_store import open_store

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def writer(tmp_path: Path, clock: FakeClock) -> AsyncIterator[tuple[StoreTime, ThreadedWriter]]:
    store = open_store(tmp_path / "p.db", clock=clock, random=SeededRandom())
    writer = ThreadedWriter(store)
    bridge = Bridge(store, writer)
    yield StoreTime(bridge, clock), writer
    bridge.close()
    writer.stop()
    store.close()


async def test_it_is_the_wall_clock_while_nothing_happens_to_that(
    writer: tuple[StoreTime, ThreadedWriter], clock: FakeClock
) -> None:
    time, _ = writer
    assert await time.now_ms() == START_WALL_MS
    clock.advance(1)
    assert await time.now_ms() == START_WALL_MS + 1_000


async def test_it_goes_on_when_the_wall_clock_is_set_back(
    writer: tuple[StoreTime, ThreadedWriter], clock: FakeClock
) -> None:
    time, _ = writer
    await time.now_ms()
    clock.step_wall(-3_600)
    clock.advance(2)
    assert await time.now_ms() == START_WALL_MS + 2_000
    clock.advance(1)
    assert await time.now_ms() == START_WALL_MS + 3_000


async def test_it_follows_the_wall_clock_forward(writer: tuple[StoreTime, ThreadedWriter], clock: FakeClock) -> None:
    time, _ = writer
    await time.now_ms()
    clock.step_wall(3_600)
    assert await time.now_ms() == START_WALL_MS + 3_600_000


async def test_it_is_asked_for_at_most_once_a_minute(
    writer: tuple[StoreTime, ThreadedWriter], clock: FakeClock
) -> None:
    time, counted = writer
    for _ in range(240):
        await time.now_ms()
        clock.advance(0.5)
    assert counted.commits == 2
