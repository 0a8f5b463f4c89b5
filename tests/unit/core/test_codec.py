"""Values survive the way through text; what does not is refused, by its path."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from enum import Enum, IntEnum, StrEnum
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

from perdure.core import codec
from perdure.errors import InvalidInput, LimitExceeded

LETTERS = st.characters() | st.characters(categories=["Cs"]) | st.just("\0")


def joins_nothing(text: str) -> bool:
    """Say whether no two halves of a surrogate pair stand side by side: JSON text makes one letter of them."""
    return not any("\ud800" <= a <= "\udbff" and "\udc00" <= b <= "\udfff" for a, b in pairwise(text))


TEXTS = st.text(LETTERS, max_size=12).filter(joins_nothing)
NUMBERS = (
    st.integers()
    | st.integers(min_value=-(2**200), max_value=2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
EDGES = [-0.0, 2**63, 2**64, -(2**63) - 1, 10**40, 5e-324, 1.7976931348623157e308, "\0", "\ud800", {"\udfff": [1e16]}]


def alike(one: Any, other: Any) -> bool:
    """Compare with types and the sign of zero: 1 is not True, 0.0 is not -0.0."""
    return repr(one) == repr(other)


@given(VALUES)
def test_what_is_decoded_is_what_was_encoded(value: Any) -> None:
    text, back = codec.round_trip(value)
    assert alike(back, value)
    assert codec.encode(back) == text
    assert alike(codec.decode(text.encode()), value)


@pytest.mark.parametrize("value", EDGES, ids=repr)
def test_the_edges_of_numbers_and_text_survive(value: Any) -> None:
    assert alike(codec.round_trip(value)[1], value)
    assert alike(codec.round_trip({"a": [value]})[1], {"a": [value]})


@given(VALUES)
@example({"b": 10**30, "a": "\ud800"})
def test_a_digest_is_of_the_value_and_not_of_its_form(value: Any) -> None:
    back = codec.decode(codec.encode(value))
    assert codec.digest(back) == codec.digest(value)
    if isinstance(value, dict):
        assert codec.digest(dict(reversed(value.items()))) == codec.digest(value)


def test_a_digest_tells_parts_apart() -> None:
    assert len({codec.digest(*parts) for parts in [("a", "b"), ("ab",), (["a", "b"],), ("a", "b", None), ()]}) == 5
    assert codec.digest("tool", {"a": 1, "b": [True, None]}) == "bf3979392d524920fa3ea9f0", "digests are stored"


@given(VALUES)
def test_what_is_known_to_be_json_is_written_the_same_way(value: Any) -> None:
    assert codec.encode_json(value) == codec.encode(value)


def test_what_is_known_to_be_json_has_the_same_limit() -> None:
    assert codec.encode_json("x" * 100, limit=102) == codec.encode("x" * 100)
    with pytest.raises(LimitExceeded):
        codec.encode_json("x" * 100, limit=101)


def test_keys_keep_their_order() -> None:
    assert codec.encode({"b": 1, "a": 2}) == '{"b":1,"a":2}'
    assert codec.encode({"b": "\ud800", "a": 2}) == '{"b":"\\ud800","a":2}'


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


@dataclass
class Point:
    x: int
    tags: tuple[str, ...]


class Level(Enum):
    HIGH = (1, "high")


@dataclass
class Secretive:
    _inner: int
    when: str | None = None


class Order(BaseModel):
    id: int
    lines: list[str]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, (2,)), [1, [2]]),
        (Point(1, ("a",)), {"x": 1, "tags": ["a"]}),
        ([Order(id=1, lines=["a"])], [{"id": 1, "lines": ["a"]}]),
        ({Colour.RED: Size.BIG}, {"red": 3}),
        (Level.HIGH, [1, "high"]),
        (Secretive(1), {"_inner": 1, "when": None}),
        (Secretive(1, "now"), {"_inner": 1, "when": "now"}),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_what_authors_return_becomes_json(value: Any, expected: Any) -> None:
    """Whatever stands beside it: values with a null and values nested deep take another way."""
    assert codec.round_trip(value)[1] == expected
    assert codec.round_trip([value, None])[1] == [expected, None]
    assert codec.round_trip([value, 2**70])[1] == [expected, 2**70]


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, {2, 3}]}, "value.a[1] is a set"),
        ({"a": {1: 2}}, "value.a is a int (1)"),
        ([float("nan")], "value[0] is a float (nan)"),
        (float("inf"), "value is a float (inf)"),
        ({"a": float("-inf")}, "value.a is a float (-inf)"),
        (b"bytes", "value is a bytes"),
        ({"when": date(2026, 1, 1)}, "value.when is a date"),
        (Point, "value is a type"),
        (Order, "value is a ModelMetaclass"),
    ],
)
def test_what_cannot_be_stored_is_named_by_its_path(value: Any, where: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        codec.encode(value)
    assert refused.value.code == "unserialisable"
    assert str(refused.value).startswith(where)


def test_a_number_too_long_to_be_read_again_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"value\.n") as refused:
        codec.encode({"n": 10**5000})
    assert refused.value.code == "unserialisable"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_nesting_ends_at_the_limit_and_says_where() -> None:
    assert codec.round_trip(nested(codec.MAX_DEPTH))[1] == nested(codec.MAX_DEPTH)
    with pytest.raises(InvalidInput, match="deeper than 64 levels"):
        codec.encode(nested(codec.MAX_DEPTH + 1))


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidInput, match="deeper than"):
        codec.encode(loop)


def test_the_size_limit_counts_bytes_and_is_exact() -> None:
    assert codec.encode("ä" * 10, limit=22)
    with pytest.raises(LimitExceeded, match="it takes 22 bytes; at most 21") as refused:
        codec.encode("ä" * 10, "it", limit=21)
    assert (refused.value.code, refused.value.details["limit"]) == ("too_large", 21)
    assert len(codec.encode("x" * (codec.MAX_VALUE_BYTES - 2))) == codec.MAX_VALUE_BYTES
    with pytest.raises(LimitExceeded):
        codec.encode("x" * (codec.MAX_VALUE_BYTES - 1))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1e999",
        "[-1e400]",
        "01",
        "'a'",
        '"\t"',
        "[" * 100_000,
        '{"a":' * 5_000,
        "1" * 5_000,
    ],
    ids=lambda text: text[:10],
)
def test_what_is_not_json_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        codec.decode(text)


@pytest.mark.parametrize("raw", [b"\xff\xfe1\x00", b"\xff", '"a"'.encode("utf-16"), b'"\xed\xa0\x80"'])
def test_bytes_are_utf8_or_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):
        codec.decode(raw)


@given(st.text() | st.binary())
def test_decode_never_raises_anything_but_value_error(text: str | bytes) -> None:
    try:
        value = codec.decode(text)
    except ValueError:
        return
    assert alike(codec.decode(codec.encode(value)), value)


@given(VALUES)
def test_text_that_others_wrote_means_the_same_here(value: Any) -> None:
    assert alike(codec.decode(json.dumps(value)), value)
    assert alike(codec.decode(json.dumps(value, indent=1)), value)
