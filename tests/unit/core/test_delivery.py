"""What a failed attempt leads to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perdure.core.delivery import Verdict, after_failure
from perdure.core.states import Task


@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_what_has_begun_is_never_tried_again(attempt: int, most: int, permanent: bool) -> None:
    verdict = after_failure(state=Task.BEGUN, attempt=attempt, max_attempts=most, permanent=permanent)
    assert verdict is Verdict.LOSE


@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_what_has_not_begun_is_tried_as_often_as_allowed(attempt: int, most: int, permanent: bool) -> None:
    verdict = after_failure(state=Task.LEASED, attempt=attempt, max_attempts=most, permanent=permanent)
    assert verdict is (Verdict.DIE if permanent or attempt >= most else Verdict.RETRY)
