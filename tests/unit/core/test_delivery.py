"""What a failed attempt leads to, and how long the next one waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.delivery import Verdict, after_failure
from perdure.core.retry import RetryPolicy
from perdure.core.states import Task


@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_what_has_begun_is_never_tried_again(attempt: int, most: int, permanent: bool) -> None:
    verdict = after_failure(state=Task.BEGUN, attempt=attempt, max_attempts=most, permanent=permanent)
    assert verdict is Verdict.LOSE


@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_what_has_not_begun_is_tried_as_often_as_allowed(attempt: int, most: int, permanent: bool) -> None:
    verdict = after_failure(state=Task.LEASED, attempt=attempt, max_attempts=most, permanent=permanent)
    assert verdict is (Verdict.DIE if permanent or attempt >= most else Verdict.RETRY)


@pytest.mark.parametrize(("attempt", "pause"), [(2, 2_000), (3, 4_000), (4, 8_000), (7, 60_000), (1_000, 60_000)])
def test_pauses_double_up_to_a_ceiling(attempt: int, pause: int) -> None:
    assert RetryPolicy().pause_before(attempt) == pause
