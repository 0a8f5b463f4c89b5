"""The quick yes agrees with the full checker, and says nothing where it is not sure."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from perdure.agent.calls import problem_of
from perdure.agent.plain_schema import plain_check

VALUES: list[Any] = ["", "text", 0, -1, 2**70, 1.0, 1.5, True, False, None, [], {}, ["a"], {"a": 1}, {"count": 1}]
PLAIN: dict[str, Any] = {
    "type": "object",
    "title": "T",
    "properties": {
        "word": {"type": "string", "description": "d"},
        "count": {"type": "integer", "default": 3},
        "share": {"type": "number"},
        "flag": {"type": "boolean"},
    },
    "required": ["word"],
}


@pytest.mark.parametrize("closed", [{}, {"additionalProperties": False}, {"additionalProperties": {"type": "null"}}])
def test_a_yes_is_a_yes_of_the_full_checker(closed: dict[str, Any]) -> None:
    schema = {**PLAIN, **closed}
    fits, full = plain_check(schema), Draft202012Validator(schema)
    assert fits is not None
    said = 0
    for name, value, word in product((*PLAIN["properties"], "other"), VALUES, VALUES):
        args = {"word": word, name: value}
        if fits(args):
            said += 1
            assert full.is_valid(args), args
    assert said > 20
    assert not any(fits(value) for value in VALUES)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "string"},
        {"type": ["object", "null"]},
        {**PLAIN, "minProperties": 2},
        {**PLAIN, "$ref": "#/$defs/x"},
        {**PLAIN, "required": ["word", 3]},
        {**PLAIN, "required": "word"},
        {**PLAIN, "properties": []},
        {**PLAIN, "properties": {"word": True}},
        {**PLAIN, "properties": {"word": {}}},
        {**PLAIN, "properties": {"word": {"type": "string", "enum": ["a"]}}},
        {**PLAIN, "properties": {"word": {"type": ["string", "null"]}}},
        {**PLAIN, "properties": {"word": {"type": "array", "items": {"type": "string"}}}},
        {**PLAIN, "properties": {"word": {"anyOf": [{"type": "string"}]}}},
    ],
)
def test_whatever_holds_more_than_types_is_not_plain(schema: Any) -> None:
    assert plain_check(schema) is None


def test_what_does_not_fit_is_told_in_the_full_checkers_words() -> None:
    assert problem_of(PLAIN, {"word": "a", "count": 1}) is None
    assert problem_of(PLAIN, {"word": "a", "count": 1.0}) is None
    assert "is not of type 'string'" in (problem_of(PLAIN, {"word": 1}) or "")
    assert "'word' is a required property" in (problem_of(PLAIN, {}) or "")
