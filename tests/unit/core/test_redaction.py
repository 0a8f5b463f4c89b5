"""What is hidden is found however it is written, and nothing else is touched."""

from __future__ import annotations

import json
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.redaction import HIDDEN, Redacting, redaction
from perdure.core.secrets import check_secret, check_secret_name
from perdure.errors import InvalidInput, PermanentError

SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40)
AROUND = st.text(max_size=20)


@given(SECRETS, AROUND, AROUND)
def test_a_secret_is_found_as_it_is_in_json_and_in_an_address(secret: str, before: str, after: str) -> None:
    hidden = redaction([secret])
    for written in (secret, json.dumps(secret)[1:-1], quote(secret, safe="")):
        assert written not in hidden.text(f"{before} {written} {after}")
    assert hidden.json({"a": [secret, 1], secret: None}) == {"a": [HIDDEN, 1], HIDDEN: None}


@given(AROUND)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert redaction(["a secret that is in no text"]).text(text) == text
    assert redaction([]).text(text) == redaction([""]).text(text) == text


def test_a_secret_that_holds_another_is_hidden_whole() -> None:
    assert redaction(["inner-value", "an inner-value and more"]).text("an inner-value and more") == HIDDEN


def in_pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


@given(SECRETS, AROUND, AROUND, st.lists(st.integers(0, 10_000)))
def test_a_secret_in_a_text_that_comes_in_pieces_is_not_told_wherever_it_is_cut(
    secret: str, before: str, after: str, cuts: list[int]
) -> None:
    hidden = redaction([secret])
    text = f"{before}{secret} {after}{secret[:-1]}"
    told: list[str] = []
    clean = Redacting(hidden)
    for piece in in_pieces(text, cuts):
        told.append(clean.piece(piece))
        assert secret not in "".join(told)
    assert "".join([*told, clean.rest()]) == hidden.text(text)


def test_what_cannot_begin_a_secret_is_told_at_once() -> None:
    clean = Redacting(redaction(["s3cret-value"]))
    told = [clean.piece(piece) for piece in ("a s3c", "ond", " s3cret", "-value", "!")]
    assert told == ["a ", "s3cond", " ", "***", "!"]
    assert Redacting(redaction([])).piece("s3c") == "s3c"


def test_a_secret_that_begins_a_longer_one_is_not_taken_for_it_too_early() -> None:
    clean = Redacting(redaction(["s3cret-value", "s3cret-value-of-mine"]))
    told = [clean.piece(piece) for piece in ("my s3cret-value", "-of-mine", " and s3cret-value", "-o'-mine")]
    assert "".join([*told, clean.rest()]) == "my *** and ***-o'-mine"


def test_an_error_is_told_without_it_and_so_is_all_behind_it() -> None:
    cause, beside = ValueError("s3cret-value", 7), KeyError("s3cret-value")
    error = PermanentError("it said s3cret-value")
    error.__cause__ = ExceptionGroup("two errors", [cause, beside])
    told = redaction(["s3cret-value"]).error(error)
    assert told is error
    assert (told.message, str(told), cause.args, beside.args) == ("it said ***",) * 2 + (("***", 7), ("***",))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("my-key", "long enough", "found 'my-key'"),
        ("1KEY", "long enough", "begins with no digit"),
        ("", "long enough", "found ''"),
        ("KEY", "short", "has 8 to 16,384 characters; found 5"),
        ("KEY", "x" * 20_000, "found 20,000"),
        ("KEY", "two\nlines of it", "printable ASCII on one line"),
        ("KEY", "grün und gut", "printable ASCII"),
        ("KEY", " begins with one", "begins or ends with a space"),
    ],
)
def test_what_cannot_be_a_secret_is_named_without_its_value(name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_secret(name, value)
    assert refused.value.code == "bad_secret"
    assert said in refused.value.message
    assert value not in refused.value.message
    check_secret_name("OPENAI_API_KEY")
