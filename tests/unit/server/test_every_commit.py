"""Every commit is a place to go on from: the file as it was after each, opened by a new process, leads to the same end.

What a kill leaves behind is always one of these files; `tests/crash` kills real processes at some of them.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from node_bench import NodeBench, Script, node_over, tool
from perdure.core.events import Event
from perdure.engine.query import events_between
from perdure.flow import driver
from perdure.models.catalog import Catalog
from perdure.models.scripted import call, say, together
from perdure.server.node import Node, Parts
from perdure.store.sqlite import SqliteStore, open_sqlite
from perdure.testing.clock import FakeClock, SeededRandom

pytestmark = [pytest.mark.anyio, pytest.mark.sqlite_only("the store after each commit is a copy of its file")]

TOOLS = (
    tool("look"),
    tool("send", delivery="at_most_once", attempts=1),
    tool("refund", approval_required=True, delivery="at_most_once", attempts=1),
)
REPLIES = [together(call("look", {"n": 1}), call("send"), call("look", {"n": 2})), call("refund"), *[say("done")] * 4]


class Keeping:
    """A store that copies its file aside after each commit, before anybody hears of it."""

    def __init__(self, store: SqliteStore, place: Path) -> None:
        self.id, self.dialect, self.shared = store.id, store.dialect, store.shared
        self.read, self.close, self.token_key = store.read, store.close, store.token_key
        self.fleeting = store.fleeting
        self._store, self._place = store, place
        self.copies: list[Path] = []

    @contextmanager
    def write(self) -> Generator[Any]:
        with self._store.write() as link:
            yield link
        folder = self._place / f"{len(self.copies):03}"
        folder.mkdir(parents=True)
        for suffix in ("", "-wal"):
            file = Path(f"{self._store.place}{suffix}")
            if file.exists():
                shutil.copyfile(file, folder / f"p.db{suffix}")
        self.copies.append(folder)


async def world(bench: NodeBench, execution: str) -> None:
    """Do all that workers and people have to do, until it has ended."""

    async def works() -> None:
        while True:
            for task in await bench.lease("look", "send", "refund"):
                if task.delivery == "at_most_once":
                    await bench.begin(task)
                await bench.done(task, f"{task.tool} done")

    async def decides() -> None:
        async for event in bench.api.follow(execution):
            if event.kind == "waitpoint_opened":
                await bench.api.decide(event.data["id"], "approve", by="ann")
            elif event.kind == "task_uncertain":
                await bench.api.rule(execution, event.address, "happened", by="ann", value=f"{event.address} happened")
            elif event.kind == "step_recorded" and event.address == "turn 2/model":
                await bench.api.send(execution, "and then?", dedupe="once")

    working = asyncio.ensure_future(works())
    try:
        await decides()
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def run_keeping(folder: Path) -> tuple[str, list[Path], list[Event]]:
    """Run it once; return its id, the file after each commit, and its log."""
    clock, random = FakeClock(), SeededRandom(1)
    store = Keeping(open_sqlite(folder / "live.db", clock=clock, random=random), folder / "copies")
    script = Script(REPLIES)
    node = Node(store, Parts(Catalog(scripted={"clerk": script}, environ={}), clock, random))
    await asyncio.to_thread(node.start)
    bench = NodeBench(node, script)
    try:
        execution = await bench.start(*TOOLS)
        await world(bench, execution)
        return execution, list(store.copies), await bench.log(execution)
    finally:
        await asyncio.to_thread(node.stop)


async def test_every_commit_leads_to_the_same_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LINGER_SECONDS", 0.002)
    execution, copies, whole = await run_keeping(tmp_path)
    steps = [event.address for event in whole if event.kind == "step_recorded"]
    assert steps == [f"turn {n}/model" for n in (1, 2, 3)]
    reached: set[int] = set()
    for copy in copies:
        past = log_in(copy, execution)
        if not past:
            continue  # before the start was accepted
        clock, script = FakeClock(), Script(REPLIES)
        clock.advance(60)  # the leases of workers that died with it have run out
        async with node_over(copy, script, clock=clock) as bench:
            await clock.asleep(2)
            clock.advance(1)
            await world(bench, execution)
            view, log = await bench.api.execution(execution), await bench.log(execution)
        check(past, log, script)
        assert view.output == {"result": "done", "finish_reason": "stop"}
        reached.add(len(past))
    assert len(reached) > len(whole) / 2, "hardly any commit was different from the one before"


def log_in(folder: Path, execution: str) -> list[Event]:
    store = open_sqlite(folder / "p.db", clock=FakeClock(), random=SeededRandom())
    try:
        with store.read() as reads:
            return events_between(reads, execution, 0, 1_000)
    finally:
        store.close()


def check(past: list[Event], log: list[Event], script: Script) -> None:
    assert log[: len(past)] == past, "what was recorded changed"
    recorded = {event.address for event in past if event.kind == "step_recorded"}
    assert not recorded & set(script.calls), "a recorded model call was made again"
    kinds: dict[str, list[str]] = {}
    for event in log:
        kinds.setdefault(event.address, []).append(str(event.kind))
    assert all(seen.count("task_begun") <= 1 for seen in kinds.values()), "an effect began twice"
    assert all(seen.count("task_completed") <= 1 for seen in kinds.values())
    assert all(seen.count("step_recorded") <= 1 for seen in kinds.values())
    assert [event.data["text"] for event in log if event.kind == "message"] == ["and then?"]
