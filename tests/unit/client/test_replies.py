"""Replies in the making, as a reader puts them together: what takes the place of what, and when nothing is left."""

from __future__ import annotations

import pytest

from perdure.client.replies import InTheMaking, Replies
from perdure.client.stream_events import ReplyDelta, ReplyReset, live_event
from perdure.core.events import Event, Kind
from perdure.core.live import Delta, LiveNews, Reset

A, B = "turn 1/model", "turn 1/model/2"


def event(kind: Kind, address: str = "") -> Event:
    return Event(2, kind, address, "", {}, 0)


def made(*news: Event | LiveNews) -> dict[str, InTheMaking]:
    replies = Replies()
    for one in news:
        replies.take(one)
    return dict(replies.made)


def test_pieces_follow_each_other_and_an_attempt_replaces_the_one_before() -> None:
    first = (Delta(A, 1, 0, "Hel"), Delta(A, 1, 3, "lo"))
    assert made(*first) == {A: InTheMaking(1, "Hello")}
    assert made(*first, Delta(A, 2, 0, "")) == {A: InTheMaking(2, "")}
    assert made(*first, Delta(A, 2, 0, "Hi"), Delta(A, 2, 2, "!")) == {A: InTheMaking(2, "Hi!")}
    assert made(*first, Delta(A, 1, 0, "Hello th"), Delta(A, 1, 8, "ere")) == {A: InTheMaking(1, "Hello there")}


def test_the_record_takes_the_place_of_its_own_address_only() -> None:
    both = (Delta(A, 1, 0, "a"), Delta(B, 1, 0, "b"))
    assert made(*both, event(Kind.STEP_RECORDED, A)) == {B: InTheMaking(1, "b")}
    assert made(*both, event(Kind.MESSAGE)) == made(*both)


ENDS = (Kind.PAUSED, Kind.STUCK, Kind.TAKEN_OVER, Kind.FAILED, Kind.CANCELLED, Kind.COMPLETED)


@pytest.mark.parametrize("end", [*map(event, ENDS), Reset("elsewhere")])
def test_what_ends_the_asking_voids_all(end: Event | LiveNews) -> None:
    assert made(Delta(A, 1, 0, "a"), end) == {}


def test_programs_see_pieces_behind_the_event_that_came_last() -> None:
    assert live_event(Delta(A, 2, 3, "lo"), 7, 5_000) == ReplyDelta(7, 5_000, A, 2, 3, "lo")
    assert live_event(Reset("elsewhere"), 7, 5_000) == ReplyReset(7, 5_000, "", "elsewhere")
