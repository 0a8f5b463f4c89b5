"""JSON from strangers has one meaning or is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bad_json import BAD_JSON
from perdure.errors import LimitExceeded, UserError
from perdure.wire import strict

MANY = b"[" + b"[]," * (strict.MAX_CONTAINERS + 1) + b"1]"
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)


@pytest.mark.parametrize(("text", "code"), BAD_JSON.values(), ids=BAD_JSON.keys())
def test_what_is_not_json_of_one_meaning_is_refused(text: bytes, code: str) -> None:
    with pytest.raises(UserError) as caught:
        strict.parse(text)
    assert caught.value.code == code


@pytest.mark.parametrize("depth", [strict.MAX_DEPTH + 1, 500, 5_000, 100_000])
@pytest.mark.parametrize(("start", "end"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"":', b"}]")])
def test_deep_nesting_is_refused(depth: int, start: bytes, end: bytes) -> None:
    with pytest.raises(UserError) as caught:
        strict.parse(start * depth + b"1" + end * depth)
    assert caught.value.code == "json_too_deep"
    with pytest.raises(UserError):
        strict.parse(start * depth)


def test_the_greatest_depth_is_read() -> None:
    text = b"[" * strict.MAX_DEPTH + b"]" * strict.MAX_DEPTH
    assert strict.parse(text) == json.loads(text)


def test_brackets_and_colons_in_text_count_for_nothing() -> None:
    value = {"[" * 200: '\\"' + "{" * 200 + '":\\\\', "a": [{"b": "::"}]}
    assert strict.parse(json.dumps(value).encode()) == value


def test_too_many_containers_are_refused() -> None:
    with pytest.raises(LimitExceeded) as caught:
        strict.parse(MANY)
    assert caught.value.code == "json_too_large"
    assert len(strict.parse(MANY, most=None)) == strict.MAX_CONTAINERS + 2, "where it comes from no stranger"


@pytest.mark.parametrize(
    "value", [2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**300, "\x00", "\ud800", {"\udfff": [2**80]}]
)
def test_what_models_and_tools_produce_is_kept_as_it_is(value: object) -> None:
    assert strict.parse(json.dumps(value).encode()) == value


def test_a_key_twice_is_named() -> None:
    with pytest.raises(UserError, match="'amount' is given twice"):
        strict.parse(b'{"amount": 1, "to": "x", "amount": 1000}')


@given(VALUES)
def test_every_json_value_is_read_as_what_it_is(value: object) -> None:
    text = json.dumps(value)
    assert strict.parse(text.encode()) == json.loads(text)


@given(st.binary(max_size=60) | st.text(alphabet='[]{}":,\\u0dea1 ', max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = strict.parse(data)
    except UserError:
        return
    assert value == json.loads(data)
