"""A store that does not answer for a while: an execution that was claimed then waits, and is not let fall."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from node_bench import NodeBench, Script
from perdure.core.events import Kind
from perdure.errors import Unreachable
from perdure.models.catalog import Catalog
from perdure.models.scripted import say
from perdure.server.node import Node, Parts
from perdure.server.reading import Answer, Query, Reading
from perdure.system import SystemClock
from perdure.testing.clock import SeededRandom
from which_store import open_store

pytestmark = pytest.mark.anyio


class Line(Reading):
    """Readers over a line that is cut whenever an executor looks for a definition, a few times."""

    cut = 3

    def submit(self, query: Query, answer: Answer) -> None:
        if self.cut and getattr(query, "__name__", "") == "stored":
            self.cut -= 1
            answer(None, Unreachable("the line is cut"))
        else:
            super().submit(query, answer)


async def test_a_claim_waits_until_its_log_can_be_read(tmp_path: Path) -> None:
    clock, random = SystemClock(), SeededRandom()
    store = open_store(tmp_path / "p.db", clock=clock, random=random)
    line = Line(store)
    script = Script([say("done")])
    node = Node(store, Parts(Catalog(scripted={"clerk": script}), clock, random, reading=lambda _: line))
    node.start()
    try:
        bench = NodeBench(node, script)
        execution = await bench.start()
        assert (await bench.result(execution)).state == "completed"
        assert line.cut == 0
        assert Kind.TAKEN_OVER not in await bench.kinds(execution)
    finally:
        await asyncio.to_thread(node.stop)
