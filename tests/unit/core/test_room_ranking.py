"""What comes first of what words and vectors find, by rules that know no model."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.room_ranking import MOST_MIXED, Candidate, Evidence, mixed
from perdure.core.room_search import COMMON


def order(
    counts: Mapping[str, int], by_words: Mapping[int, str], near: list[int], texts: int = 100, absent: str = ""
) -> list[int]:
    """Mix hits: what each text found by words has of the query, and the nearest."""
    words = (*counts, *absent.split())
    found = [Candidate(number, frozenset(has.split())) for number, has in by_words.items()]
    return mixed(Evidence(words, counts, texts), found, [Candidate(one, frozenset()) for one in near])


def test_what_has_the_number_comes_before_what_is_like_it() -> None:
    counts = {"po": 20, "48812": 1, "status": 3}
    assert order(counts, {7: "po 48812", 9: "po"}, [9, 3, 7]) == [7, 9, 3]


def test_of_several_identifiers_the_texts_with_most_of_them_come_first() -> None:
    counts = {"v12": 2, "a36": 2, "steel": 9}
    assert order(counts, {1: "v12 a36", 2: "v12", 3: "a36 steel"}, [3, 2]) == [1, 3, 2]
    assert order(counts, {2: "v12", 3: "a36 steel"}, [5]) == [2, 3, 5]


@pytest.mark.parametrize(("word", "count"), [("3", 1), ("2024", 40), ("beam", 1)])
def test_a_short_number_a_frequent_one_and_a_word_name_nothing(word: str, count: int) -> None:
    counts = {word: count, "who": 2, "pays": 2, "now": 2}
    assert order(counts, {1: word}, [2, 1])[0] == 2


def test_what_has_all_that_the_words_tell_comes_first_whatever_is_near() -> None:
    counts = {"kowalski": 2, "pump": 3, "the": 90}
    assert order(counts, {1: "kowalski pump", 2: "kowalski"}, [3, 2])[0] == 1, "without `the`, which tells nothing"


def test_ordinary_words_of_a_question_do_not_move_what_is_near() -> None:
    counts = {"how": 5, "do": 9, "we": 20}
    absent = "refund broken goods"
    assert order(counts, {1: "how do we", 2: "how do"}, [3, 4, 2], absent=absent) == [3, 4, 2]


def test_words_that_tell_something_are_fused_with_what_is_near() -> None:
    counts = {"granite": 1, "quarry": 1, "slate": 1}
    assert order(counts, {1: "granite quarry"}, [2, 3, 1]) == [1, 2, 3]
    assert order(counts, {1: "granite quarry"}, [2, 3]) == [2, 1, 3], "of equals the nearest first"
    assert order(counts, {1: "granite"}, [2, 3, 1]) == [2, 3, 1], "one of three tells too little"


def test_where_all_that_may_be_mixed_is_exact_nothing_is_added() -> None:
    exact = dict.fromkeys(range(MOST_MIXED), "river")
    assert order({"river": MOST_MIXED + 5}, exact, [900]) == []
    del exact[0]
    assert order({"river": MOST_MIXED + 5}, exact, [900]) == [*exact, 900]


def test_a_word_that_very_many_have_tells_nothing() -> None:
    assert Evidence(("the",), {"the": COMMON}, 50_000).share(frozenset({"the"})) == 0
    assert Evidence((), {}, 0).share(frozenset()) == 0


SOME = st.lists(st.integers(0, 60), unique=True, max_size=MOST_MIXED)
WORDS = ("steel", "a36", "48812", "the")


@given(SOME, SOME, st.lists(st.sets(st.sampled_from(WORDS)), min_size=61, max_size=61), st.integers(0, 500))
def test_nothing_comes_twice_nothing_near_is_lost_and_nothing_is_made_up(
    by_words: list[int], near: list[int], has: list[set[str]], texts: int
) -> None:
    counts = {word: sum(word in one for one in has) for word in WORDS}
    lists = [[Candidate(number, frozenset(has[number])) for number in one] for one in (by_words, near)]
    found = mixed(Evidence(WORDS, counts, texts), lists[0], lists[1])
    assert len(found) == len(set(found))
    assert set(found) <= {*by_words, *near}
    assert not found or set(near) <= set(found)
