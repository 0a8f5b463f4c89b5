"""A long log is shown by the page: no question about an execution reads all of it at once, on both databases."""

from __future__ import annotations

from typing import Any, cast

import pytest

from engine_bench import COMPANY, Bench, completion, once, step
from perdure.core.items import AwaitSignal
from perdure.core.views import EffectFilter, ExecutionView
from perdure.engine.claim import Claimed
from perdure.engine.complete import complete
from perdure.engine.diagnose import diagnose
from perdure.engine.gist import Gists
from perdure.engine.ledger import MOST_EFFECTS, effects_view, log_page
from perdure.engine.query import PAGE, PAGE_BYTES, events_page, execution_view
from perdure.engine.query_tasks import tasks_view
from perdure.engine.signal import Signal, signal
from perdure.store.protocol import Reads, Row
from perdure.wire.account import account_of
from perdure.wire.pages import all_effects, all_tasks

REPLIES, CALLS = 1_500, 1_100
REPLY = (
    '{"outcome":"replied","requests":1,"reply":{"text":"%s","usage":{"input_tokens":3,"output_tokens":2},"cost_usd":1}}'
)


class Counting:
    """A view of a store that notes how much its largest answer held."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self.most_rows = 0
        self.most_letters = 0

    def rows(self, query: str, **params: Any) -> list[Row]:
        found = self._reads.rows(query, **params)
        self.most_rows = max(self.most_rows, len(found))
        letters = sum(len(value) for row in found for value in row.values() if isinstance(value, str))
        self.most_letters = max(self.most_letters, letters)
        return found

    def row(self, query: str, **params: Any) -> Row | None:
        return self._reads.row(query, **params)

    def speak_for(self, company: str) -> None:
        self._reads.speak_for(company)


class Shown:
    """The verbs by which a log is proven, over a bench."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def log(self, execution: str, *, after: int = 0, limit: int = PAGE) -> Any:
        return self._bench.read(lambda reads: log_page(reads, COMPANY, execution, after=after, limit=limit))

    async def effects(self, *, execution: str, after: int = 0, **chosen: Any) -> Any:
        wanted = EffectFilter(execution, after=after, **chosen)
        return self._bench.read(lambda reads: effects_view(reads, COMPANY, wanted))

    async def tasks(self, execution: str, *, after: int = 0, limit: int = PAGE) -> Any:
        return self._bench.read(lambda reads: tasks_view(reads, COMPANY, execution, after=after, limit=limit))


def said(text: str) -> str:
    return REPLY % text


@pytest.fixture
def long(bench: Bench) -> Claimed:
    """An execution with many replies and many effects, all of them done."""
    held = bench.owned()
    for first in range(0, REPLIES, 500):
        bench.record(held, *(step(f"turn {n}/model", said("yes" * 100)) for n in range(first, first + 500)))
    bench.record(held, *(once(f"call {n}", delivery="at_least_once", max_attempts=1) for n in range(CALLS)))
    while given := bench.lease(slots=200):
        bench.together(*((complete, completion(one, value=1)) for one in given))
    return held


def test_nothing_reads_more_of_it_than_a_page(bench: Bench, long: Claimed) -> None:
    execution = long.ref.execution
    with bench.store.read() as reads:
        counting = Counting(reads)
        view = execution_view(counting, COMPANY, execution)
        assert (view.usage.model_calls, view.usage.input_tokens, view.waits) == (REPLIES, REPLIES * 3, ())
        diagnose(counting, COMPANY, execution, [], view.updated_ms)
        assert len(events_page(counting, execution, 0, PAGE)) <= PAGE
        assert len(log_page(counting, COMPANY, execution, after=0, limit=PAGE).links) <= PAGE
        assert len(tasks_view(counting, COMPANY, execution, limit=100)) == 100
        assert len(tasks_view(counting, COMPANY, execution, after=view.last_seq - 3 * CALLS + 5)) <= PAGE
        assert counting.most_rows <= PAGE
        assert counting.most_letters <= 2 * PAGE_BYTES
        effects = effects_view(counting, COMPANY, EffectFilter(execution))
        assert len(effects) == MOST_EFFECTS
        assert counting.most_rows <= 4 * MOST_EFFECTS, "what is told of those effects, and nothing else"


@pytest.mark.anyio
async def test_all_calls_and_effects_are_listed_and_proven_however_many(bench: Bench, long: Claimed) -> None:
    shown = cast("Any", Shown(bench))
    names = [f"call {n}" for n in range(CALLS)]
    tasks = await all_tasks(shown, long.ref.execution)
    assert [(task.address, task.state, task.value) for task in tasks] == [(name, "done", 1) for name in names]
    found = await account_of(shown, long.ref.execution)
    assert found.verified.holds
    assert [one.address for one in found.effects] == names, "not the first thousand alone"
    assert all(one.outcome == "done" for one in found.effects)
    assert len(found.model_calls) == REPLIES
    chosen = [one.address async for one in all_effects(shown, long.ref.execution, tool="post", state="done")]
    assert chosen == names, "what is written out, too"
    wanted = EffectFilter(long.ref.execution, address=f"call {CALLS - 1}")
    [effect] = bench.read(lambda reads: effects_view(reads, COMPANY, wanted))
    assert (effect.address, effect.outcome) == (f"call {CALLS - 1}", "done")


def test_what_is_remembered_of_a_log_is_what_a_new_reader_finds(bench: Bench) -> None:
    held = bench.owned()
    execution, gists = held.ref.execution, Gists()

    def seen(known: Gists | None) -> ExecutionView:
        return bench.read(lambda reads: execution_view(reads, COMPANY, execution, known))

    for n in range(4):
        bench.record(held, step(f"turn {n}/model", said("x")), AwaitSignal(f"wait {n}", "d", "go" if n % 2 else "stop"))
        bench.do(signal, Signal(COMPANY, execution, "signal", "", "", f"key {n}", name="go"))
        assert seen(gists) == seen(None)
    assert {wait.detail for wait in seen(gists).waits} == {"signal stop"}
    bench.signal(execution, "pause", text="enough")
    assert seen(gists) == seen(gists) == seen(None)
    assert (seen(gists).state, seen(gists).message) == ("paused", "enough")
