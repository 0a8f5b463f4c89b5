"""The store's clock: one way only, whatever the wall clock does, and stored no more often than it must be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perdure.store.clock import AHEAD_MS, StoreClock
from perdure.testing.clock import FakeClock

WALL = 1_700_000_000_000


def test_it_is_the_wall_clock_while_that_goes_on() -> None:
    wall = FakeClock(WALL)
    clock = StoreClock(wall, bound_ms=0)
    assert clock.now() == WALL
    wall.advance(1.5)
    assert clock.now() == WALL + 1_500


def test_it_goes_on_by_itself_while_the_wall_clock_stands_behind() -> None:
    wall = FakeClock(WALL)
    clock = StoreClock(wall, bound_ms=0)
    clock.now()
    wall.step_wall(-3600)
    wall.advance(2)
    assert clock.now() == WALL + 2_000


def test_it_follows_the_wall_clock_forward() -> None:
    wall = FakeClock(WALL)
    clock = StoreClock(wall, bound_ms=0)
    clock.now()
    wall.step_wall(3600)
    assert clock.now() == WALL + 3_600_000


def test_crash_after_crash_does_not_take_it_away_from_the_wall_clock() -> None:
    wall = FakeClock(WALL)
    stored = 0
    for _ in range(50):
        clock = StoreClock(wall, stored)
        for _ in range(4):
            now = clock.now()
            if now > clock.bound_ms:
                stored = clock.bound_ms = clock.next_bound(now)
            assert now - wall.wall_ms() <= AHEAD_MS
            wall.advance(0.01)
    wall.advance(AHEAD_MS / 1000)
    assert clock.now() == wall.wall_ms()


@given(st.lists(st.tuples(st.integers(-100_000, 100_000), st.integers(0, 5_000), st.booleans()), max_size=40))
def test_it_never_goes_back_through_steps_and_crashes(history: list[tuple[int, int, bool]]) -> None:
    """Each entry: a step of the wall clock, time that passes, whether the process then dies. Milliseconds."""
    wall = FakeClock(WALL)
    stored = last = 0
    clock = StoreClock(wall, stored)
    for step, passes, dies in history:
        wall.step_wall(step / 1000)
        wall.advance(passes / 1000)
        now = clock.now()
        if now > clock.bound_ms:
            stored = clock.bound_ms = clock.next_bound(now)
        assert last <= now <= stored <= now + AHEAD_MS or now <= stored
        last = now
        if dies:
            clock = StoreClock(wall, stored)
