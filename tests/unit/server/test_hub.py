"""Hints reach whoever listens, on their own loop, in the order of the commits, and nobody else."""

from __future__ import annotations

import asyncio
import threading

import pytest

from perdure.server.hub import Hub
from perdure.store.tx import Note
from perdure.testing.simulation import run_simulation

pytestmark = pytest.mark.anyio


def publish(hub: Hub, *notes: Note) -> None:
    """As the writer does: from a thread of its own."""
    thread = threading.Thread(target=hub.publish, args=(notes,))
    thread.start()
    thread.join()


async def settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_hint_reaches_every_listener_of_its_topic_and_no_other() -> None:
    hub, heard = Hub(), list[str]()
    with (
        hub.listening([("events", "exe_1")], lambda note: heard.append(f"a {note.key}")),
        hub.listening([("events", "exe_1"), ("ready", "")], lambda note: heard.append(f"b {note.topic}")),
    ):
        publish(hub, Note("events", "exe_1"), Note("events", "exe_2"), Note("tasks", "exe_1"), Note("ready", ""))
        await settled()
    assert heard == ["a exe_1", "b events", "b ready"]


async def test_nobody_hears_anything_after_leaving() -> None:
    hub, heard = Hub(), list[Note]()
    with hub.listening([("ready", "")], heard.append):
        pass
    publish(hub, Note("ready", ""))
    await settled()
    assert heard == []


async def test_the_same_listener_may_come_twice_and_leave_once() -> None:
    hub, heard = Hub(), list[Note]()
    with hub.listening([("ready", "")], heard.append):
        with hub.listening([("ready", "")], heard.append):
            publish(hub, Note("ready", ""))
            await settled()
        publish(hub, Note("ready", ""))
        await settled()
    assert len(heard) == 3


async def test_hints_come_in_the_order_of_the_commits() -> None:
    hub, heard = Hub(), list[str]()
    with hub.listening([("events", str(n)) for n in range(5)], lambda note: heard.append(note.key)):
        for n in (3, 1, 4, 0, 2):
            publish(hub, Note("events", str(n)))
        await settled()
    assert heard == ["3", "1", "4", "0", "2"]


def test_a_hint_for_later_comes_later() -> None:
    async def main() -> float:
        hub, heard = Hub(), asyncio.Event()
        with hub.listening([("tasks", "c/q")], lambda _note: heard.set()):
            hub.publish([Note("tasks", "c/q", after_ms=5)])
            await heard.wait()
        return asyncio.get_running_loop().time()

    assert run_simulation(1, main).value == 0.005


async def test_a_listener_hears_on_its_own_loop() -> None:
    hub, heard = Hub(), list[threading.Thread]()
    ready, done = threading.Event(), threading.Event()

    async def elsewhere() -> None:
        with hub.listening([("ready", "")], lambda _note: heard.append(threading.current_thread())):
            ready.set()
            while not heard:  # noqa: ASYNC110 - another loop's event
                await asyncio.sleep(0.001)
        done.set()

    thread = threading.Thread(target=asyncio.run, args=(elsewhere(),))
    thread.start()
    await asyncio.to_thread(ready.wait)
    publish(hub, Note("ready", ""))
    await asyncio.to_thread(done.wait)
    thread.join()
    assert heard == [thread]


async def test_a_loop_that_is_closed_is_passed_over() -> None:
    hub, heard = Hub(), list[Note]()

    async def forgets() -> None:
        hub.listening([("ready", "")], heard.append).__enter__()

    await asyncio.to_thread(asyncio.run, forgets())
    with hub.listening([("ready", "")], heard.append):
        publish(hub, Note("ready", ""))
        await settled()
    assert len(heard) == 1
