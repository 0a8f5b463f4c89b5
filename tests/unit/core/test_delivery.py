"""What a failed attempt leads to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.delivery import Delivery, Tries, Verdict, after_failure, tighten
from perdure.core.states import Task


@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_what_has_begun_is_never_tried_again(attempt: int, most: int, permanent: bool) -> None:
    verdict = after_failure(Tries(Task.BEGUN, attempt, most, permanent))
    assert verdict is Verdict.LOSE


@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_what_has_not_begun_is_tried_as_often_as_allowed(attempt: int, most: int, permanent: bool) -> None:
    verdict = after_failure(Tries(Task.LEASED, attempt, most, permanent))
    assert verdict is (Verdict.DIE if permanent or attempt >= most else Verdict.RETRY)


@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_its_authors_word_that_nothing_happened_makes_it_a_failed_try(attempt: int, most: int, permanent: bool) -> None:
    verdict = after_failure(Tries(Task.BEGUN, attempt, most, permanent, not_done=True))
    assert verdict is (Verdict.DIE if permanent or attempt >= most else Verdict.TAKE_BACK)


def test_nothing_is_tried_again_after_its_key_is_forgotten() -> None:
    tries = Tries(Task.LEASED, 1, 3, key_forgotten=True)
    assert after_failure(tries) is Verdict.LOSE
    assert after_failure(replace(tries, not_done=True)) is Verdict.RETRY
    assert after_failure(replace(tries, attempt=3)) is Verdict.DIE


@pytest.mark.parametrize("floor", Delivery)
@pytest.mark.parametrize("chosen", Delivery)
def test_a_policy_only_ever_tightens(chosen: Delivery, floor: Delivery) -> None:
    found = tighten(chosen, floor)
    tightened = (chosen, floor) == (Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE)
    assert found is (Delivery.AT_MOST_ONCE if tightened else chosen)
