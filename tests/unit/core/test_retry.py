"""How long the next try waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.retry import pause_before
from perdure.core.rules import TaskRules


@pytest.mark.parametrize(("attempt", "pause"), [(2, 2_000), (3, 4_000), (4, 8_000), (7, 60_000), (100_000, 60_000)])
def test_pauses_double_up_to_a_ceiling(attempt: int, pause: int) -> None:
    assert pause_before(TaskRules(), attempt, 0.0) == pause


def test_pauses_grow_by_the_factor() -> None:
    rules = TaskRules(pause_ms=100, factor=3, ceiling_ms=10_000)
    assert [pause_before(rules, attempt, 0.0) for attempt in range(2, 8)] == [100, 300, 900, 2_700, 8_100, 10_000]


def test_no_pause_stays_none() -> None:
    assert pause_before(TaskRules(pause_ms=0), 100_000, 0.5) == 0


@given(
    st.builds(
        TaskRules,
        pause_ms=st.integers(0, 10**9),
        factor=st.floats(1, 1_000),
        ceiling_ms=st.integers(0, 10**9),
        jitter=st.floats(0, 1),
    ),
    st.integers(2, 1_001),
    st.floats(-1, 2),
)
def test_a_jittered_pause_is_never_negative_and_never_longer(rules: TaskRules, attempt: int, chance: float) -> None:
    whole = pause_before(rules, attempt, 0.0)
    assert round(whole * (1 - rules.jitter)) - 1 <= pause_before(rules, attempt, chance) <= whole <= rules.ceiling_ms
