"""What is said of a model's arguments: the same in every process, and after bounded work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from perdure.agent.calls import problem_of
from perdure.agent.full_check import LEVELS, STEPS

FURTHER = {"type": "object", "additionalProperties": {"type": "integer"}}
WRONG: dict[str, Any] = {f"field{number}": f"text {number}" for number in range(20)}
_SAY = """
import json, sys
from perdure.agent.calls import problem_of
print(problem_of(*json.loads(sys.argv[1])))
"""


def doubling(levels: int) -> dict[str, Any]:
    """Return a schema that refers to each of its levels twice from the one above."""
    rules: dict[str, Any] = {f"l{levels}": {"type": "object"}}
    for level in range(levels):
        rules[f"l{level}"] = {"allOf": [{"$ref": f"#/$defs/l{level + 1}"}] * 2}
    return {"$ref": "#/$defs/l0", "$defs": rules}


def test_what_is_said_depends_on_no_process() -> None:
    """A set of texts has another order under each seed of their hashes."""
    given = json.dumps([FURTHER, WRONG])
    said = {
        subprocess.run(
            [sys.executable, "-c", _SAY, given],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in range(1, 6)
    }
    assert said == {"field0: 'text 0' is not of type 'integer'\n"}


def test_the_first_of_further_properties_that_is_wrong_is_told_of() -> None:
    assert problem_of(FURTHER, {"z": 1, "y": "no", "a": "no"}) == "y: 'no' is not of type 'integer'"
    named = {**FURTHER, "properties": {"y": {}}, "patternProperties": {"^b": {}}}
    assert problem_of(named, {"z": 1, "y": "no", "b1": "no", "a": "no"}) == "a: 'no' is not of type 'integer'"


def test_further_properties_that_may_not_be_are_told_of_as_ever() -> None:
    closed = {"type": "object", "additionalProperties": False}
    assert problem_of(closed, {"b": 1, "a": 1}) == ("Additional properties are not allowed ('a', 'b' were unexpected)")
    assert problem_of({**closed, "patternProperties": {"^x": {}}}, {"b": 1, "a": 1, "x1": 1}) == (
        "'a', 'b' do not match any of the regexes: '^x'"
    )


def test_references_that_double_end_after_bounded_work() -> None:
    assert problem_of(doubling(10), {}) is None
    assert problem_of(doubling(60), {}) == f"to hold them against the schema takes more than {STEPS:,} steps"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"anyOf": [{"$ref": "#"}]},
        {"not": {"$ref": "#"}},
    ],
)
def test_a_schema_that_refers_to_itself_says_so_however_deep_its_caller_stands(schema: dict[str, Any]) -> None:
    wanted = f"the schema, or what is held against it, is nested deeper than {LEVELS} levels"

    def below(levels: int) -> str | None:
        return below(levels - 1) if levels else problem_of(schema, {})

    assert {below(levels) for levels in (0, 50, 150)} == {wanted}


def test_values_as_deep_as_they_may_be_are_held_against_a_schema_that_nests() -> None:
    tree: dict[str, Any] = {
        "$defs": {"node": {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}}},
        "$ref": "#/$defs/node",
    }
    value: Any = {}
    for _ in range(60):
        value = {"child": value}
    assert problem_of(tree, value) is None
    assert problem_of(tree, {"child": {"child": 1}}) == "child.child: 1 is not of type 'object'"


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, True], True),
        ([0, False], True),
        ([1, 1.0], False),
        ([[1], [True]], True),
        ([{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], False),
        ([{"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}], False),
        ([{}, [], "", None, False, 0], True),
        (["a", "b", "a"], False),
    ],
)
def test_items_are_the_same_where_json_says_so(items: list[Any], unique: bool) -> None:
    said = problem_of({"uniqueItems": True}, items)
    assert said == (None if unique else f"{items!r} has non-unique elements")
    assert problem_of({"uniqueItems": False}, items) is None


def test_many_objects_are_compared_in_time_by_their_number() -> None:
    """Each with each, these would be two hundred million comparisons."""
    many: list[Any] = [{"n": number} for number in range(20_000)]
    assert problem_of({"uniqueItems": True}, many) is None
