"""The rules of a task survive being stored, and what cannot be read is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.rules import DEFAULT_RULES, TaskRules, rules_from_json, rules_from_text, rules_to_json, rules_to_text
from perdure.errors import InvalidInput

_MS = st.integers(0, 10**12)
_RULES = st.builds(
    TaskRules,
    pause_ms=_MS,
    factor=st.floats(1, 100),
    ceiling_ms=_MS,
    jitter=st.floats(0, 1),
    deadline_ms=_MS,
    key_ttl_ms=_MS,
    settle_ms=st.none() | _MS,
    probe=st.booleans(),
    rule_by_ms=_MS,
    rule_as=st.sampled_from(["", "give_up", "run"]),
)


@given(_RULES)
def test_what_was_stored_is_what_is_read(rules: TaskRules) -> None:
    assert rules_from_text(rules_to_text(rules)) == rules
    assert rules_from_json(rules_to_json(rules)) == rules


def test_rows_without_rules_have_the_defaults() -> None:
    assert rules_from_text("{}") == DEFAULT_RULES
    assert rules_to_text(DEFAULT_RULES) == "{}"


def test_the_defaults_are_those_that_stored_rows_rely_on() -> None:
    assert TaskRules(2_000, 2.0, 60_000, 0.0, 0, 0, None, False, 0, "") == DEFAULT_RULES


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"unheard_of": 1},
        {"pause_ms": -1},
        {"pause_ms": True},
        {"pause_ms": 1.5},
        {"factor": 0.5},
        {"factor": float("inf")},
        {"jitter": 1.1},
        {"jitter": "some"},
        {"probe": 1},
        {"rule_as": 1},
        {"deadline_ms": None},
        {"key_ttl_ms": 10**18},
    ],
)
def test_rules_that_cannot_be_read_are_refused(value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        rules_from_json(value)
    assert refused.value.code == "bad_rules"
