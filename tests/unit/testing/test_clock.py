"""Time that only a test moves, and chance that repeats."""

from __future__ import annotations

import asyncio
import threading

import pytest

from perdure.core.ports import Clock, Random
from perdure.testing.clock import FakeClock, LoopClock, SeededRandom
from perdure.testing.simulation import run_simulation

pytestmark = pytest.mark.anyio


async def test_time_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(wall_ms=1_000)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (1_000, 0)
    clock.advance(1.5)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (2_500, 1_500)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


async def test_the_wall_clock_can_jump_alone() -> None:
    clock = FakeClock(wall_ms=1_000)
    clock.step_wall(-0.6)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (400, 0)


async def test_sleepers_wake_in_the_order_they_are_due() -> None:
    clock = FakeClock()
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    async with asyncio.TaskGroup() as group:
        longest_of_three, *_ = [group.create_task(sleeper(seconds)) for seconds in (3, 1, 2, 9)]
        await clock.asleep(4)
        clock.advance(3)
        await longest_of_three
        assert woken == [1, 2, 3]
        clock.advance(5.999)
        await asyncio.sleep(0)
        assert len(woken) == 3
        clock.advance(0.001)
    assert woken == [1, 2, 3, 9]


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = FakeClock()
    sleeper = asyncio.create_task(clock.sleep(1))
    await clock.asleep()
    sleeper.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeper
    seen = asyncio.create_task(clock.asleep())
    await asyncio.sleep(0)
    assert not seen.done()
    seen.cancel()
    clock.advance(5)


async def test_sleeping_for_nothing_returns() -> None:
    clock = FakeClock()
    await clock.sleep(0)
    await clock.sleep(-1)


async def test_a_sleeper_on_another_loop_wakes() -> None:
    clock = FakeClock()
    asleep = threading.Event()

    async def main() -> None:
        sleeper = asyncio.create_task(clock.sleep(10))
        await clock.asleep()
        asleep.set()
        await sleeper

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert await asyncio.to_thread(asleep.wait, 10)
    clock.advance(10)
    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()


async def test_the_same_seed_gives_the_same_chance() -> None:
    def draw(seed: int) -> tuple[bytes, float]:
        random = SeededRandom(seed)
        return random.token(16), random.uniform(1, 2)

    assert draw(7) == draw(7) != draw(8)
    token, number = draw(7)
    assert len(token) == 16
    assert 1 <= number <= 2


async def test_they_are_the_ports() -> None:
    _clocks: list[Clock] = [FakeClock(), LoopClock(asyncio.get_running_loop())]
    _random: Random = SeededRandom()


def test_the_clock_of_a_loop_follows_its_time() -> None:
    async def main() -> tuple[int, int]:
        clock = LoopClock(asyncio.get_running_loop(), start_ms=5_000)
        await clock.sleep(2.5)
        return clock.wall_ms(), clock.monotonic_ms()

    assert run_simulation(0, main).value == (7_500, 2_500)
