"""What can be a tag."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.core.tags import MOST_LETTERS, MOST_TAGS, checked_tags
from perdure.errors import InvalidInput


def test_tags_keep_their_order_and_are_there_once() -> None:
    assert checked_tags(["b", "a", "b", "customer:7", "größer", "two words"]) == (
        "b",
        "a",
        "customer:7",
        "größer",
        "two words",
    )
    assert checked_tags([]) == ()
    assert len(checked_tags([str(n) for n in range(MOST_TAGS)])) == MOST_TAGS


@pytest.mark.parametrize(
    "wrong",
    [
        [""],
        [" a"],
        ["a\n"],
        ["a\0b"],
        ["\ud800"],
        ["x" * (MOST_LETTERS + 1)],
        [7],
        [str(n) for n in range(MOST_TAGS + 1)],
        "customer",
    ],
)
def test_what_can_be_none_is_named(wrong: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_tags(wrong)
    assert refused.value.code == "bad_tags"


def test_one_text_in_the_place_of_a_list_is_told_how_to_write_it() -> None:
    with pytest.raises(InvalidInput, match=r"Write tags=\['customer'\]"):
        checked_tags("customer")
