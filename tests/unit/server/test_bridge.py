"""The crossing between event loops and the writer's thread."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Conflict, StoreFailed
from perdure.server.bridge import Bridge
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Reads
from perdure.store.tx import Tx
from perdure.store.writer import ThreadedWriter
from perdure.testing.clock import FakeClock, SeededRandom
from which_store import open_store

pytestmark = pytest.mark.anyio


@operation()
def echo(tx: Tx, rows: Sequence[Any]) -> Steps[Any]:
    """Give each row back; raise the exceptions among those called `raise`; wait for events."""
    yield ()
    for row in rows:
        if isinstance(row, threading.Event):
            row.wait(60)
        if isinstance(row, ZeroDivisionError):
            raise row
    return list(rows)


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Bridge]:
    store = open_store(tmp_path / "p.db", clock=FakeClock(), random=SeededRandom())
    writer = ThreadedWriter(store)
    bridge = Bridge(store, writer)
    yield bridge
    writer.stop()
    bridge.close()
    store.close()


async def test_a_refusal_is_returned_by_run_and_raised_by_ask(bridge: Bridge) -> None:
    refusal = Conflict("no")
    assert await bridge.run(echo, refusal) is refusal
    with pytest.raises(Conflict):
        await bridge.ask(echo, refusal)
    assert await bridge.ask(echo, 7) == 7


async def test_a_failure_is_raised_and_touches_no_neighbour(bridge: Bridge) -> None:
    answers = await asyncio.gather(
        *(bridge.run(echo, row) for row in (1, ZeroDivisionError("x"), 3)), return_exceptions=True
    )
    assert answers[0] == 1
    assert isinstance(answers[1], ZeroDivisionError)
    assert answers[2] == 3


async def test_a_caller_that_was_cancelled_keeps_nobody_else_from_the_answer(bridge: Bridge) -> None:
    hold = threading.Event()
    first = asyncio.ensure_future(bridge.run(echo, hold))
    others = [asyncio.ensure_future(bridge.run(echo, n)) for n in range(3)]
    await asyncio.sleep(0)
    others[1].cancel()
    first.cancel()
    await asyncio.sleep(0)
    hold.set()
    assert await others[0] == 0
    assert await others[2] == 2
    assert others[1].cancelled()


async def test_reads_run_away_from_the_loop(bridge: Bridge) -> None:
    here = threading.current_thread()
    assert await bridge.read(lambda _reads: threading.current_thread()) is not here
    assert await bridge.read(lambda reads: reads.row("any_key")) is None


async def test_glances_of_one_turn_share_a_view_and_nothing_else(bridge: Bridge) -> None:
    views: list[Reads] = []

    def look(reads: Reads) -> int:
        views.append(reads)
        return len(views)

    def refuse(reads: Reads) -> int:
        raise Conflict("not yours")

    answers = await asyncio.gather(*map(bridge.glance, (look, refuse, look)), return_exceptions=True)
    assert [answers[0], answers[2]] == [1, 2]
    assert isinstance(answers[1], Conflict)
    assert views[0] is views[1]


async def test_a_view_that_breaks_fails_every_glance_of_its_turn(bridge: Bridge) -> None:
    def fails(reads: Reads) -> int:
        raise ZeroDivisionError

    answers = await asyncio.gather(bridge.glance(fails), bridge.glance(lambda _reads: 1), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ZeroDivisionError] * 2
    bridge.close()
    with pytest.raises(StoreFailed):
        await bridge.glance(lambda _reads: 1)


async def test_rows_of_one_turn_are_committed_together(tmp_path: Path) -> None:
    store = open_store(tmp_path / "p.db", clock=FakeClock(), random=SeededRandom())
    writer = ThreadedWriter(store)
    bridge = Bridge(store, writer)

    async def one(number: int) -> int:
        return await bridge.run(echo, number)

    assert await asyncio.gather(*map(one, range(50))) == list(range(50))
    assert writer.commits == 1
    writer.stop()
    bridge.close()
    store.close()


async def test_any_number_of_loops_may_ask(bridge: Bridge) -> None:
    async def several(start: int) -> list[int]:
        return list(await asyncio.gather(*(bridge.run(echo, start + n) for n in range(20))))

    results = await asyncio.gather(*(asyncio.to_thread(asyncio.run, several(n)) for n in (0, 100, 200)))
    assert results == [list(range(n, n + 20)) for n in (0, 100, 200)]


async def test_a_loop_that_is_gone_is_forgotten(bridge: Bridge) -> None:
    gone: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def once() -> None:
        gone.append(weakref.ref(asyncio.get_running_loop()))
        await bridge.run(echo, 1)

    for _ in range(2):
        await asyncio.to_thread(asyncio.run, once())
    await bridge.run(echo, 1)
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


async def test_an_answer_for_a_loop_that_has_closed_is_dropped(bridge: Bridge) -> None:
    hold = threading.Event()

    async def leaves() -> None:
        task = asyncio.ensure_future(bridge.run(echo, hold))
        await asyncio.sleep(0.01)
        task.cancel()

    await asyncio.to_thread(asyncio.run, leaves())
    hold.set()
    assert await bridge.run(echo, 2) == 2
