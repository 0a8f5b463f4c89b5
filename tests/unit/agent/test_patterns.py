"""Patterns of schemas: the verdicts of `re`, and none that takes a time without bound."""

from __future__ import annotations

import re
from typing import Any

import pytest

from perdure.agent.calls import problem_of
from perdure.agent.patterns import SlowPattern, matches

ORDINARY = (
    r"^[a-z]+$",
    r"^[\w.+-]+@[\w-]+\.[\w.]+$",
    r"^\d{4}-\d{2}-\d{2}$",
    r"^(DE|FR|IT)\d{2}",
    r"^([a-z0-9]+-)*[a-z0-9]+$",
    r"^(\d+\.)*\d+$",
    r"^(?!-)[a-z-]{1,63}(?<!-)$",
    r"^(.)\1$",
    r"",
    r"^(foo|bar)+$",
    r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$",  # what pydantic says of a Decimal
)
LONG = "1" * 30 + "." + "1" * 30
TEXTS = (
    "",
    "abc",
    "abc\n",
    "a-b-c",
    "-ab",
    "a@b.de",
    "2026-01-31",
    "1.2.3",
    "DE12",
    "aa",
    "foobar",
    LONG,
    "é",
    "\ud800",
)


@pytest.mark.parametrize("pattern", ORDINARY)
def test_ordinary_patterns_find_what_re_finds(pattern: str) -> None:
    assert [matches(pattern, text) for text in TEXTS] == [bool(re.search(pattern, text)) for text in TEXTS]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"^(a+)+$", True),
        (r"^(a|a)+$", True),
        (r"^(?:a*)*$", True),
        (r"^(\w+\s?)*$", True),
        (r"^(a?){60}a{60}$", False),
        (r"^a*a*a*a*a*a*b$", False),
        (r"(a+){2,}b", False),
    ],
)
def test_what_goes_exponentially_many_ways_takes_time_by_length(pattern: str, found: bool) -> None:
    # Over `re` the second line would not end within a lifetime.
    assert matches(pattern, "a" * 59) is found
    assert not matches(pattern, "a" * 10_000 + "!")


def test_a_long_text_is_searched_once_through() -> None:
    assert not matches(r"\s+$", " " * 1_000_000 + "x")


@pytest.mark.parametrize("pattern", [r"^(?=x)(a+)+$", r"^(a+)+\1$"])
def test_what_no_engine_bounds_is_refused_with_what_to_do(pattern: str) -> None:
    with pytest.raises(SlowPattern, match="Write it without repeating what repeats"):
        matches(pattern, "a" * 59)
    said = problem_of({"type": "object", "properties": {"name": {"pattern": pattern}}}, {"name": "a" * 59})
    assert said is not None
    assert said.startswith("the schema itself cannot be used (SlowPattern: the pattern ")


def test_a_schema_says_of_a_pattern_what_it_said() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^(a+)+$"}}}
    assert problem_of(schema, {"name": "a" * 50}) is None
    assert problem_of(schema, {"name": "a" * 26 + "!"}) == f"name: '{'a' * 26}!' does not match '^(a+)+$'"


def test_no_draft_that_a_schema_names_brings_the_other_checker_back() -> None:
    draft = "http://json-schema.org/draft-07/schema#"
    name = {"type": "string", "pattern": "^(a+)+$"}
    inner = {"type": "object", "properties": {"name": {"$schema": draft, **name}}}
    within: dict[str, Any] = {"$schema": draft, "type": "object", "properties": {"name": name, "next": {"$ref": "#"}}}
    assert "does not match" in str(problem_of(inner, {"name": "a" * 60 + "!"}))
    assert "does not match" in str(problem_of(within, {"next": {"name": "a" * 60 + "!"}}))


@pytest.mark.parametrize("closed", [True, False])
def test_names_are_held_against_patterns_that_are_quick_alone(closed: bool) -> None:
    def checked(pattern: str, name: str) -> str | None:
        schema: dict[str, Any] = {"type": "object", "patternProperties": {pattern: {"type": "integer"}}}
        return problem_of(schema | ({"additionalProperties": False} if closed else {}), {name: 1})

    assert checked("^x-[a-z]+$", "x-ray") is None
    assert "cannot be used (SlowPattern: patternProperties" in str(checked("^(a+)+$", "a" * 40 + "!"))
