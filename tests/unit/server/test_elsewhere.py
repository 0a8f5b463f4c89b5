"""What another server commits reaches those who wait here: as further events of a log, and as a reason to ask again.

The other server is a node; the one that hears of it has a hub of its own, to which nothing is published otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from node_bench import AGENT, COMPANY, PATIENCE, NodeBench, node_over, tool
from perdure.core.events import Kind
from perdure.core.queues import QueueLimits
from perdure.core.work import Lane
from perdure.models.scripted import call, say
from perdure.server.elsewhere import Elsewhere, lane_topic
from perdure.server.hub import Hub
from perdure.store.tx import Note
from perdure.system import SystemClock

pytestmark = pytest.mark.anyio

LANE = lane_topic(COMPANY, Lane(AGENT, "work"))


@asynccontextmanager
async def hearing(bench: NodeBench, hub: Hub) -> AsyncIterator[Elsewhere]:
    """Hear of what the bench's node does, while the block lasts."""
    elsewhere = Elsewhere(bench.node.bridge, hub, SystemClock())
    task = asyncio.create_task(elsewhere.run())
    try:
        yield elsewhere
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def until_heard(heard: asyncio.Queue[Note], topic: str) -> Note:
    async with asyncio.timeout(PATIENCE):
        while (note := await heard.get()).topic != topic:
            pass
    return note


async def test_events_and_tasks_are_heard_of_from_another_server(tmp_path: Path) -> None:
    hub, heard = Hub(), asyncio.Queue[Note]()
    async with node_over(tmp_path, [call("work"), say("done")]) as bench, hearing(bench, hub):
        with hub.listening([LANE], heard.put_nowait):
            execution = await bench.start(tool("work"))
            await until_heard(heard, LANE[0])
        with hub.listening([("events", execution)], heard.put_nowait):
            told = [await until_heard(heard, "events")]
            [task] = await bench.lease("work")
            await bench.done(task, "worked")
            while told[-1].rows[-1]["kind"] != Kind.COMPLETED:
                told.append(await until_heard(heard, "events"))
    seqs = [row["seq"] for note in told for row in note.rows]
    assert seqs == list(range(seqs[0], seqs[-1] + 1)), "from the first look on none is missing and none is told twice"


async def test_what_this_process_wrote_itself_is_no_news(tmp_path: Path) -> None:
    hub, heard = Hub(), asyncio.Queue[Note]()
    async with node_over(tmp_path, [say("done")]) as bench, hearing(bench, hub) as elsewhere:
        execution = await bench.start()
        await bench.result(execution)
        log = await bench.log(execution)
        elsewhere.saw([Note("events", execution, rows=({"seq": log[-1].seq},))])
        with hub.listening([("events", execution)], heard.put_nowait):
            for _ in range(2):
                await asyncio.wait_for(elsewhere.deadlines(), PATIENCE)
    assert heard.empty()
    assert elsewhere.answers


async def test_what_a_look_found_empty_need_not_be_asked_for(tmp_path: Path) -> None:
    hub, heard = Hub(), asyncio.Queue[Note]()
    async with node_over(tmp_path, [call("work"), say("done")]) as bench, hearing(bench, hub) as elsewhere:
        assert not elsewhere.no_tasks([LANE]), "nobody has looked"
        with hub.listening([LANE], heard.put_nowait):
            await asyncio.wait_for(elsewhere.deadlines(), PATIENCE)
            assert elsewhere.no_tasks([LANE])
            assert elsewhere.nothing_ready()
            assert elsewhere.nothing_to_serve()
            other = lane_topic(COMPANY, Lane(AGENT, "other"))
            assert not elsewhere.no_tasks([LANE, other]), "nobody looked for the other"
            await bench.start(tool("work"))
            await until_heard(heard, LANE[0])
            assert not elsewhere.no_tasks([LANE])


async def test_room_in_a_queue_with_a_limit_is_heard_of_from_another_server(tmp_path: Path) -> None:
    hub, heard = Hub(), asyncio.Queue[Note]()
    async with node_over(tmp_path, [call("work"), say("done")]) as bench, hearing(bench, hub) as elsewhere:
        await bench.api.set_queue("default", QueueLimits(concurrency=1))
        with hub.listening([LANE], heard.put_nowait):
            for _ in range(2):
                await bench.start(tool("work"))
            [task] = await bench.lease("work")
            for _ in range(2):  # the first look may have begun before
                await elsewhere.deadlines()
            while not heard.empty():
                heard.get_nowait()
            await bench.done(task, "worked")
            await until_heard(heard, LANE[0])


async def test_a_queue_that_goes_on_is_heard_of_from_another_server(tmp_path: Path) -> None:
    hub, heard = Hub(), asyncio.Queue[Note]()
    async with node_over(tmp_path, [call("work"), say("done")]) as bench, hearing(bench, hub) as elsewhere:
        await bench.api.pause_queue("default")
        with hub.listening([LANE], heard.put_nowait):
            await bench.start(tool("work"))
            await until_heard(heard, LANE[0])
            for _ in range(2):
                await elsewhere.deadlines()
            while not heard.empty():
                heard.get_nowait()
            await bench.api.resume_queue("default")
            await until_heard(heard, LANE[0])
