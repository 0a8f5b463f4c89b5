"""Runs that are driven, and parked ones that are kept: good for the claim that follows their own, and for no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from driving import run_of
from memory_journal import MemoryLog
from perdure.flow import driver
from perdure.flow.context import Context
from perdure.flow.runs import Live, Runs

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LINGER_SECONDS", 0.001)


@pytest.fixture
async def runs() -> AsyncIterator[Runs]:
    runs = Runs(2)
    yield runs
    await runs.close()


async def waiting(name: str, thrown_away: list[str]) -> Live:
    """Return a run that waits for news, as it parked under fence 1."""

    async def code(ctx: Context) -> Any:
        try:
            await ctx.news()
        finally:
            thrown_away.append(name)

    run = run_of(code)
    log = MemoryLog()
    journal = log.claim(run)
    assert await run.drive(journal, log.events) == "parked"
    return Live(run, 1)


async def test_a_run_is_driven_until_it_parks_and_then_kept(runs: Runs) -> None:
    while_driven: list[Live | None] = []

    async def code(ctx: Context) -> Any:
        while_driven.append(runs.driven.get(ctx.execution))
        await ctx.news()

    run, log = run_of(code), MemoryLog()
    live = Live(run, 1)
    assert await runs.drive(live, log.claim(run), log.events) == "parked"
    assert while_driven == [live]
    assert (dict(runs.driven), runs.kept) == ({}, 1)


async def test_the_next_claim_gets_the_run_and_its_own_fence(runs: Runs) -> None:
    thrown_away: list[str] = []
    live = await waiting("one", thrown_away)
    runs.keep("one", live)
    assert runs.seen == {"one": 1}

    assert await runs.take("one", 2) is live
    assert (live.fence, thrown_away) == (2, [])
    assert (runs.kept, runs.seen) == (0, {})
    await live.run.close()


async def test_a_run_is_thrown_away_when_somebody_else_had_the_execution(runs: Runs) -> None:
    thrown_away: list[str] = []
    runs.keep("one", await waiting("one", thrown_away))

    assert await runs.take("one", 3) is None
    assert thrown_away == ["one"]
    assert (runs.kept, runs.seen) == (0, {})


async def test_what_was_not_kept_is_not_there(runs: Runs) -> None:
    assert await runs.take("one", 2) is None


async def test_beyond_the_bound_the_oldest_goes(runs: Runs) -> None:
    thrown_away: list[str] = []
    for name in ("one", "two", "three"):
        runs.keep(name, await waiting(name, thrown_away))
    assert (runs.kept, runs.seen) == (2, {"two": 1, "three": 1})

    await runs.close()
    assert sorted(thrown_away) == ["one", "three", "two"]
    assert (runs.kept, runs.seen) == (0, {})
