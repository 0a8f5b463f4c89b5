"""A parked run that is kept: good for the claim that follows its own, and for no other."""

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
async def parked() -> AsyncIterator[Runs]:
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


async def test_the_next_claim_gets_the_run_and_its_own_fence(parked: Runs) -> None:
    thrown_away: list[str] = []
    live = await waiting("one", thrown_away)
    parked.keep("one", live)
    assert parked.seen == {"one": 1}

    assert await parked.take("one", 2) is live
    assert (live.fence, thrown_away) == (2, [])
    assert (len(parked), parked.seen) == (0, {})
    await live.run.close()


async def test_a_run_is_thrown_away_when_somebody_else_had_the_execution(parked: Runs) -> None:
    thrown_away: list[str] = []
    parked.keep("one", await waiting("one", thrown_away))

    assert await parked.take("one", 3) is None
    assert thrown_away == ["one"]
    assert (len(parked), parked.seen) == (0, {})


async def test_what_was_not_kept_is_not_there(parked: Runs) -> None:
    assert await parked.take("one", 2) is None


async def test_beyond_the_bound_the_oldest_goes(parked: Runs) -> None:
    thrown_away: list[str] = []
    for name in ("one", "two", "three"):
        parked.keep(name, await waiting(name, thrown_away))
    assert (len(parked), parked.seen) == (2, {"two": 1, "three": 1})

    await parked.close()
    assert sorted(thrown_away) == ["one", "three", "two"]
    assert (len(parked), parked.seen) == (0, {})
