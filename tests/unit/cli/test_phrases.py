"""What is said of times, amounts and calls, and that nobody's text can play with the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli import phrases


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_240, "1.2 s"),
        (59_940, "59.9 s"),
        (59_960, "1 min"),
        (185_000, "3 min 5 s"),
        (7_800_000, "2 h 10 min"),
        (3_600_000, "1 h"),
        (273_600_000, "3 d 4 h"),
    ],
)
def test_durations_are_said_in_two_units_at_most(ms: float, said: str) -> None:
    assert phrases.duration(ms) == said


@pytest.mark.parametrize(
    ("gone", "said"), [(-5, "just now"), (999, "just now"), (3_700, "3 s ago"), (65_000, "1 min 5 s ago")]
)
def test_how_long_ago(gone: int, said: str) -> None:
    assert phrases.ago(1_000_000 - gone, 1_000_000) == said


def test_an_unknown_price_is_never_nothing() -> None:
    said = [phrases.money(dollars) for dollars in (None, 0.0, 0.0021, 1.5)]
    assert said == ["price unknown", "$0.00", "$0.0021", "$1.50"]


@given(st.text())
def test_no_text_reaches_the_terminal_with_anything_but_printable_characters(text: str) -> None:
    assert phrases.plain(text).isprintable()
    assert phrases.exact({text: text}).isprintable()
    assert phrases.call(text, {text: [text]}).isprintable()
    assert phrases.written_call(text, text).isprintable()
    assert all(line.isprintable() for line in phrases.block(text).split("\n"))


def test_a_text_keeps_its_lines() -> None:
    assert phrases.block("one\r\n\n\x1b[2Jtwo\r") == "one\n\n\\x1b[2Jtwo\\r"


def test_directions_and_escapes_are_written_out() -> None:
    assert phrases.call("pay", {"to": "Ada\u202e\x1b[2K"}) == r'pay(to="Ada\u202e\u001b[2K")'


def test_long_values_are_cut_and_exact_ones_are_not() -> None:
    long = "x" * 500
    assert len(phrases.value(long)) == phrases.SHORT
    assert phrases.value(long).endswith("…")
    assert long in phrases.exact({"a": long})


def test_calls_that_are_no_json_are_shown_as_they_were_written() -> None:
    assert phrases.written_call("add", '{"a":1') == 'add({"a":1)'
    assert phrases.written_call("add", '{"a":1}') == "add(a=1)"
    assert phrases.written_call("add", "") == "add()"


def test_ids_are_shortened_to_what_tells_them_apart() -> None:
    assert phrases.short_id("local/wrk_06h2fn6snhkh7en6y9cf6dgca4") == "local/wrk_…6dgca4"
    assert phrases.short_id("w1") == "w1"


def test_costs_are_said_by_currency() -> None:
    assert phrases.costs({}) == ""
    assert phrases.costs({"EUR": "3", "USD": "0.25"}) == "3 EUR + 0.25 USD"
