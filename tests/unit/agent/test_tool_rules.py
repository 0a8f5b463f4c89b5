"""The retry policy of a tool, as its author declares it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.agent.tool import definition_of, tool
from perdure.core.rules import TaskRules
from perdure.errors import InvalidInput


def options_of(**options: Any) -> Any:
    @tool(**options)
    def look() -> str:
        return "seen"

    return definition_of(look).options


def test_the_policy_is_what_was_declared() -> None:
    found = options_of(
        retries=4,
        retry_pause_seconds=0.5,
        retry_factor=3,
        retry_ceiling_seconds=20,
        retry_jitter=0,
        no_retry=(KeyError, ValueError),
        deadline_seconds=timedelta(minutes=2),
    )
    assert found.rules == TaskRules(pause_ms=500, factor=3.0, ceiling_ms=20_000, jitter=0.0, deadline_ms=120_000)
    assert (found.attempts, found.no_retry) == (5, (KeyError, ValueError))


def test_without_a_word_pauses_double_up_to_a_minute_and_are_cut_by_up_to_a_fifth() -> None:
    assert options_of().rules == TaskRules(pause_ms=2_000, factor=2.0, ceiling_ms=60_000, jitter=0.2)


def test_one_exception_need_not_stand_in_a_tuple() -> None:
    assert options_of(no_retry=ValueError).no_retry == (ValueError,)


@pytest.mark.parametrize(
    "options",
    [
        {"retry_pause_seconds": -1},
        {"retry_factor": 0.5},
        {"retry_factor": "2"},
        {"retry_factor": float("nan")},
        {"retry_ceiling_seconds": True},
        {"retry_jitter": 1.5},
        {"deadline_seconds": 0},
        {"no_retry": (ValueError("x"),)},
        {"no_retry": "ValueError"},
        {"no_retry": (KeyboardInterrupt,)},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        options_of(**options)
    assert refused.value.code == "bad_tool"
    assert next(iter(options)) in str(refused.value)
