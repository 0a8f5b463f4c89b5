"""A conversation is stored once, however long it is: what a turn adds does not grow with the turns before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from node_bench import Script, node_over
from perdure.agent.spec import LimitsEntry
from perdure.core.events import Kind
from perdure.models.scripted import call, say

pytestmark = pytest.mark.anyio

TURNS = 60
WORDS = "word " * 100


async def test_a_late_turn_adds_no_more_to_the_store_than_an_early_one(tmp_path: Path) -> None:
    script = Script([*([call("nothing", {"text": WORDS})] * TURNS), say("done")])
    async with node_over(tmp_path, script) as bench:
        execution = await bench.start(limits=LimitsEntry(turns=TURNS + 2))
        assert (await bench.result(execution)).state == "completed"
        sizes = {link.seq: len(link.data) for link in (await bench.api.log(execution)).links}
        replies = [event for event in await bench.log(execution) if event.kind is Kind.STEP_RECORDED]
    assert len(replies) == TURNS + 1
    assert len(script.requests[-1].messages) > TURNS, "the model reads the whole conversation each time"
    calls = [sizes[event.seq] for event in replies[:-1]]
    assert max(calls) - min(calls) <= 100, "numbers become longer, and nothing else"
    assert sum(sizes.values()) < TURNS * (len(WORDS) + 1_000)
