"""How texts and queries are cut into words, what words weigh, and what of a text is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.room_search import (
    COMMON,
    MOST_FOUND,
    MOST_WORDS,
    SNIPPET,
    Course,
    Head,
    Place,
    Source,
    asked_words,
    check_search,
    cursor_of,
    entries_of,
    kinds_of,
    read_cursor,
    snippet_of,
    weights_of,
    words_of,
)
from perdure.errors import InvalidInput

SOURCE = Source("room_1", "acme", "message", "msg_1", 7)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The budget, the BUDGET!", ["the", "budget"]),
        ("Müller's Café", ["muller", "s", "cafe"]),
        ("ﬁne Ⅻ 𝐀𝐁", ["fine", "xii", "ab"]),
        ("straße STRASSE", ["strasse"]),
        ("東京の橋", ["東", "京", "の", "橋"]),
        ("done 🎉🎉🚀", ["done", "🎉", "🚀"]),
        ("v1.2_rc-3", ["v1", "2", "rc", "3"]),
        ("a\0b\ud800c", ["a", "b", "c"]),
        ('" OR * NEAR(x) -y :z', ["or", "near", "x", "y", "z"]),
        ("हिन्दी ไทย", ["हनद", "ไทย"]),
        ("—", []),
        ("x" * 500, ["x" * 64]),
    ],
)
def test_words_are_what_letters_say_whatever_their_form(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@given(st.text())
def test_words_hold_nothing_that_a_database_reads_as_a_command_and_stay_what_they_are(text: str) -> None:
    found = words_of(text)
    assert words_of(" ".join(found)) == found
    assert not set("".join(found)) & set(" \"'\\\0&|!:*()<>{}^-_%")
    assert all(word and (not word.isascii() or word.isalnum()) for word in found)


def test_of_a_query_the_first_words_count_and_its_size_costs_nothing() -> None:
    assert len(asked_words(" ".join(f"w{number}" for number in range(1_000)))) == MOST_WORDS
    assert asked_words("x" + " " * 1_000_000 + "y") == ["x"]


def test_a_rarer_word_weighs_more_and_a_common_one_counts_only_by_itself() -> None:
    rare, some, common = weights_of(["a", "b", "c"], {"a": 1, "b": 900, "c": COMMON}).values()
    assert rare > some > common == 0
    assert weights_of(["a", "b", "c"], {"a": COMMON, "b": COMMON + 5}) == {"a": 1, "b": 1, "c": 0}
    assert weights_of(["a"], {}) == {"a": 0}
    assert weights_of(["a"], {"a": COMMON - 1})["a"] > 0


def test_an_entry_is_there_for_each_reader_in_the_order_in_which_they_are_kept() -> None:
    made = entries_of(SOURCE, {0: "one, two, one", 1: "!"}, ("acme", "globex"))
    assert sorted(str(one["reader"]) for one in made) == ["acme", "globex"]
    assert {one["words"] for one in made} == {"one two"}
    numbers = [one["number"] for one in entries_of(SOURCE, dict.fromkeys(range(50), "x"))]
    assert numbers == sorted(set(numbers))
    assert all(isinstance(one, int) and 0 <= one < 2**63 for one in numbers)


HEAD = Head((5, 2**63 - 1, 0), 1, 2)


@pytest.mark.parametrize("head", [Head(), HEAD, Head(tuple(range(2**62, 2**62 + 80)), 80, 80)])
def test_a_cursor_is_read_back_for_its_query_alone(head: Head) -> None:
    course = Course(Place(12, 99, 7, 0), {"a": 5, "b": 0}, head)
    good = cursor_of(course)
    assert read_cursor(good, ["a", "b"]) == course
    for words in (["a"], ["a", "b", "c"]):
        with pytest.raises(InvalidInput):
            read_cursor(good, words)


def test_what_is_no_cursor_is_refused() -> None:
    good = cursor_of(Course(Place(12, 99, 7, 0), {"a": 5, "b": 0}))
    headed = cursor_of(Course(Place(12, 99, 7, 0), {"a": 5, "b": 0}, HEAD))
    for cursor in (
        *(f"{good}-1", good[:-2], "x", good.replace(".", ","), "١.1.1.1.1-1", "1.1.1.1." + "-".join("1" * 99)),
        *(f"{good}.0.0.", f"{good}.0.0.AAAA", headed[:-1], headed[:-3], f"{headed}AA", f"{headed}A"),
        *(f"{good}.4.0.{headed.rpartition('.')[2]}", f"{good}.0.4.{headed.rpartition('.')[2]}"),
        *(f"{good}.0.0.{'A' * 22}", f"{good}.0.0.{'_' * 11}", headed.replace(".1.2.", ".١.2.")),
    ):
        with pytest.raises(InvalidInput) as refused:
            read_cursor(cursor, ["a", "b"])
        assert refused.value.code == "bad_search", cursor


def test_what_cannot_be_asked_is_named() -> None:
    for kinds, limit, said in (
        (("task",), 1, "one or more of message, memory, file; found 'task'"),
        (kinds_of("message,"), 1, "found ''"),
        ((), 0, f"limit should be 1 to {MOST_FOUND}; found 0"),
        ((), MOST_FOUND + 1, "found 101"),
    ):
        with pytest.raises(InvalidInput, match=said):
            check_search(kinds, limit)
    check_search(kinds_of("message, file"), MOST_FOUND)
    assert kinds_of("") == ()


def test_a_snippet_is_the_stretch_with_the_most_of_the_words() -> None:
    text = "budget\n" + "so " * 200 + "the Budgét of the bridge" + " and more" * 100
    shown = snippet_of(text, ["budget", "bridge"])
    assert "the Budgét of the bridge" in shown
    assert (shown[0], shown[-1]) == ("…", "…")
    assert len(shown) <= SNIPPET + 2
    assert snippet_of("short  and\nplain", ["x"]) == "short and plain"
    assert "橋" in snippet_of("川" * 1_000 + "橋", ["橋"])
