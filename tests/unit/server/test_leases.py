"""A model is asked only under a lease that surely holds: who slept past it asks nobody before it was prolonged."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest, Usage
from perdure.server.leases import HeldModels, Leases
from perdure.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

LEASE_MS = 30_000


class Asked:
    """A model that is asked for execution `exe_1`, and how often it was."""

    def __init__(self, leases: Leases, *, cancelled: bool = False) -> None:
        self.times = 0
        self._was_cancelled = cancelled
        models = Catalog(scripted={"m": self._script}, environ={})
        self._port = HeldModels(models, leases, "exe_1", self._cancelled).port("scripted/m")

    async def _cancelled(self) -> bool:
        return self._was_cancelled

    def _script(self, _request: ModelRequest) -> ModelReply:
        self.times += 1
        return ModelReply("done", (), "stop", Usage(1, 1), "scripted/m", 0.0)

    def ask(self) -> asyncio.Task[ModelReply]:
        return asyncio.get_running_loop().create_task(self._port.request(ModelRequest("scripted/m", "", ())))


async def test_what_was_just_claimed_is_held() -> None:
    leases = Leases(clock := FakeClock(), LEASE_MS)
    clock.advance(1_000)
    leases.begin("exe_1", 1, clock.monotonic_ms())
    clock.advance(29.9)
    await Asked(leases).ask()


async def test_who_slept_past_the_lease_asks_once_it_was_prolonged() -> None:
    leases = Leases(clock := FakeClock(), LEASE_MS)
    leases.begin("exe_1", 1, clock.monotonic_ms())
    clock.advance(30)
    asked = Asked(leases)
    asking = asked.ask()
    await anyio.wait_all_tasks_blocked()
    clock.advance(5)
    await anyio.wait_all_tasks_blocked()
    assert asked.times == 0
    leases.renewed(clock.monotonic_ms(), {"exe_1": 1})
    clock.advance(5)
    assert (await asking).text == "done"


async def test_who_slept_past_the_lease_asks_nobody_if_it_was_cancelled_meanwhile() -> None:
    """The process has not heard of it yet: it was stopped, and another server took the cancel."""
    leases = Leases(clock := FakeClock(), LEASE_MS)
    leases.begin("exe_1", 1, clock.monotonic_ms())
    clock.advance(30)
    asked = Asked(leases, cancelled=True)
    asking = asked.ask()
    await anyio.wait_all_tasks_blocked()
    leases.renewed(clock.monotonic_ms(), {"exe_1": 1})
    await anyio.wait_all_tasks_blocked()
    assert asked.times == 0
    asking.cancel()


async def test_a_renewal_that_was_asked_for_too_long_ago_prolongs_nothing() -> None:
    leases = Leases(clock := FakeClock(), LEASE_MS)
    leases.begin("exe_1", 1, before := clock.monotonic_ms())
    clock.advance(40)
    leases.renewed(before, {"exe_1": 1})
    asked = Asked(leases)
    asking = asked.ask()
    await anyio.wait_all_tasks_blocked()
    assert asked.times == 0
    asking.cancel()


@pytest.mark.parametrize("prolonged", [{}, {"exe_2": 1}, {"exe_1": 2}], ids=["nothing", "another", "another claim"])
async def test_a_renewal_prolongs_no_claim_that_is_not_in_it(prolonged: dict[str, int]) -> None:
    """It may have been lost while the news of its grant was on the way: to a process that was stopped, for instance."""
    leases = Leases(clock := FakeClock(), LEASE_MS)
    asked_ms = clock.monotonic_ms()
    clock.advance(40)
    leases.renewed(clock.monotonic_ms(), prolonged)
    leases.begin("exe_1", 1, asked_ms)
    leases.renewed(clock.monotonic_ms(), prolonged)
    asked = Asked(leases)
    asking = asked.ask()
    await anyio.wait_all_tasks_blocked()
    assert asked.times == 0
    asking.cancel()


async def test_what_was_let_go_of_asks_nobody_until_it_came_back() -> None:
    leases = Leases(clock := FakeClock(), LEASE_MS)
    leases.begin("exe_1", 1, clock.monotonic_ms())
    leases.end("exe_1", 1)
    asked = Asked(leases)
    asking = asked.ask()
    await anyio.wait_all_tasks_blocked()
    assert asked.times == 0
    clock.advance(60)
    leases.begin("exe_1", 2, clock.monotonic_ms())
    leases.end("exe_1", 1)
    clock.advance(5)
    assert (await asking).text == "done"
