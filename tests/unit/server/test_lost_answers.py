"""Every verb that changes something, where each commit happens and is reported lost: done once, and answered as done.

A connection that breaks at COMMIT has the writer run it again. The second run must not take the first one's work for
somebody else's, or miss what the first has taken away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from node_bench import KEYS, NodeBench, Script, spec, tool
from perdure.core.hooks import new_secret
from perdure.core.rooms import Invite, Join, Leave, RemoveAgent, Written
from perdure.core.schedules import ScheduleRequest
from perdure.errors import NotFound
from perdure.models.catalog import Catalog
from perdure.models.scripted import Step, call, say, together
from perdure.server.node import Node, Parts
from perdure.system import SystemClock
from perdure.testing.clock import SeededRandom
from unsure_store import UnsureStore
from which_store import open_store

pytestmark = pytest.mark.anyio

BOT: dict[str, Any] = {"name": "bot", "model": "scripted/clerk", "instructions": ""}


class Unsure(NodeBench):
    """A node whose store reports commits lost while that is asked for."""

    store: UnsureStore

    async def once(self, asked: Any) -> Any:
        """Ask for something while commits are reported lost; return the answer."""
        before = self.store.lost
        self.store.unsure = True
        try:
            return await asked
        finally:
            self.store.unsure = False
            assert self.store.lost > before, "nothing was run twice"


@asynccontextmanager
async def unsure(folder: Path, replies: Sequence[Step] = ()) -> AsyncIterator[Unsure]:
    clock, random, script = SystemClock(), SeededRandom(1), Script(replies)
    store = UnsureStore(open_store(folder / "p.db", clock=clock, random=random))
    node = Node(store, Parts(Catalog(scripted={"clerk": script}, environ={}), clock, random, server_keys=KEYS))
    node.start()
    bench = Unsure(node, script)
    bench.store = store
    try:
        yield bench
    finally:
        await asyncio.to_thread(node.stop)


async def test_what_is_asked_of_an_execution_happens_once(tmp_path: Path) -> None:
    """A second cancel would skip the cleanup."""
    async with unsure(tmp_path, [call("look"), say("done")]) as bench:
        execution = await bench.start(tool("look"))
        await bench.lease("look")  # so that it goes on being cancelled
        await bench.once(bench.api.pause(execution))
        await bench.once(bench.api.resume(execution))
        await bench.once(bench.api.stop(execution))
        await bench.once(bench.api.cancel(execution))
        kinds = await bench.kinds(execution)
    asked = ("paused", "resumed", "stop_requested", "cancel_requested")
    assert [kinds.count(kind) for kind in asked] == [1, 1, 1, 1]


async def test_a_call_that_has_failed_for_good_is_put_back_once(tmp_path: Path) -> None:
    async with unsure(tmp_path, [together(call("look"), call("wait")), say("done")]) as bench:
        execution = await bench.start(tool("look", attempts=1), tool("wait"))
        [task] = await bench.lease("look")
        await bench.failed(task)
        view = await bench.once(bench.api.retry_task(execution, task.address))
        assert view.state == "ready"
        assert (await bench.kinds(execution)).count("task_revived") == 1


async def test_what_is_taken_away_was_there(tmp_path: Path) -> None:
    """And what was not there is refused as ever, for which nothing is written."""
    async with unsure(tmp_path) as bench:
        api = bench.api
        await api.create_schedule(ScheduleRequest("nightly", spec(), "hi", "0 3 * * *"))
        await api.publish_agent(spec(), description="helps")
        await api.set_secret("ALPHA", "the value of it")
        room = (await api.create_room("the project", key="k")).id
        await api.put_room_agent(room, BOT)
        await api.add_room_hook(room, "ci", "default/bot", new_secret(SeededRandom(2)))
        for take in (
            lambda: api.delete_schedule("nightly"),
            lambda: api.withdraw_agent("clerk"),
            lambda: api.delete_secret("ALPHA"),
            lambda: api.remove_room_hook("ci"),
        ):
            assert await bench.once(take()) is None
            with pytest.raises(NotFound):
                await take()
        assert await api.schedules() == await api.published_agents() == await api.secrets() == []
        assert await api.room_hooks() == []


async def test_who_leaves_a_room_and_is_taken_out_of_one_was_in_it(tmp_path: Path) -> None:
    async with unsure(tmp_path) as bench:
        host, guest = bench.api, bench.node.api("globex")
        await bench.node.add_key("globex", "globex-ops", f"pdk_globex{'0' * 40}")
        room = (await host.create_room("the project", key="k")).id
        await host.write_in_room(room, Invite("globex"))
        await guest.write_in_room(room, Join())
        await guest.put_room_agent(room, BOT)
        for act in (RemoveAgent("bot"), Leave()):
            assert await bench.once(guest.write_in_room(room, act)) == Written(room, 0, created=False)
        with pytest.raises(NotFound):
            await guest.write_in_room(room, Leave())
        kinds = [link.kind for link in (await host.room_ledger(room)).links]
        assert kinds.count("room_agent_removed") == kinds.count("room_left") == 1


async def test_an_agent_that_never_was_in_a_room_is_not_taken_out_of_it(tmp_path: Path) -> None:
    async with unsure(tmp_path) as bench:
        room = (await bench.api.create_room("the project", key="k")).id
        with pytest.raises(NotFound):
            await bench.api.write_in_room(room, RemoveAgent("bot"))
