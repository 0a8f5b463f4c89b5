"""Two servers on one database write in one room: one ledger without a gap, and the same message once."""

from __future__ import annotations

from functools import partial

import pytest

from at_once import at_once
from engine_bench import Bench
from room_bench import ACME, ANN, BOB, GLOBEX, RoomBench

EACH = 15


@pytest.fixture
def rooms(servers: tuple[Bench, Bench]) -> tuple[RoomBench, RoomBench]:
    """One room at both."""
    first, second = map(RoomBench, servers)
    assert first.room == second.room
    first.agent(BOB, "bot")
    return first, second


def test_what_both_write_at_once_stands_in_one_ledger(rooms: tuple[RoomBench, RoomBench]) -> None:
    first, second = rooms
    at_once(
        lambda: [first.post(ANN, f"ann {number}") for number in range(EACH)],
        lambda: [second.post(BOB, f"bob {number}") for number in range(EACH)],
    )
    said = first.texts(GLOBEX)
    assert sorted(said) == sorted([f"{who} {number}" for who in ("ann", "bob") for number in range(EACH)])
    assert [one for one in said if one.startswith("ann")] == [f"ann {number}" for number in range(EACH)]
    assert len(first.ledger(ACME).links) == 4 + 2 * EACH


def test_the_same_message_at_both_is_one_message_and_one_wake(rooms: tuple[RoomBench, RoomBench]) -> None:
    for number in range(EACH):
        done = at_once(*(partial(room.post, ANN, f"@bot, number {number}?", key=str(number)) for room in rooms))
        assert [one.created for one in done].count(True) == 1
        assert len({one.id for one in done}) == 1
        assert sum(len(one.woken) for one in done) == 1
    assert len(rooms[0].bench.claim(limit=100)) == EACH


def test_a_room_that_both_make_at_once_is_one(rooms: tuple[RoomBench, RoomBench]) -> None:
    made = at_once(*(lambda room=room: room.make("another") for room in rooms))
    assert made[0] == made[1]
    assert [one.created for one in at_once(*(lambda room=room: room.post(ANN, "x") for room in rooms))].count(True) == 1
