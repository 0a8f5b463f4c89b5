"""Which entries a batch takes: each key once, each key's order kept, nobody left for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from perdure.store.batch import MAX_BYTES, MAX_LOOK_AHEAD, MAX_OPERATIONS, Batches, Entry
from store_operations import Put, Waiter, put

Rows = Sequence[tuple[frozenset[str], int]]

rows = st.lists(
    st.tuples(st.frozensets(st.sampled_from("abcdef"), max_size=3), st.sampled_from([0, 1, 400_000, 2_000_000])),
    max_size=60,
)


def queue(given_rows: Rows) -> Batches:
    batches = Batches(cast("Any", None), cast("Any", None), cast("Any", None))
    waiter = Waiter()
    for number, (keys, size) in enumerate(given_rows):
        batches.queue.append(Entry(put, Put(str(number), tuple(sorted(keys)), size), waiter))
    return batches


def take_all(batches: Batches) -> list[list[Put]]:
    taken: list[list[Put]] = []
    while batches:
        taken.append([entry.row for entry in batches.take()])
        assert taken[-1], "a batch took nothing though something was queued"
    return taken


@given(rows)
def test_every_row_is_taken_once_and_each_key_in_order(given_rows: Rows) -> None:
    taken = take_all(queue(given_rows))
    flat = [row for batch in taken for row in batch]
    assert sorted(int(row.key) for row in flat) == list(range(len(given_rows)))
    for key in "abcdef":
        order = [int(row.key) for row in flat if key in row.keys]
        assert order == sorted(order)
    for batch in taken:
        keys = [key for row in batch for key in row.keys]
        assert len(keys) == len(set(keys))
        assert len(batch) == 1 or sum(row.size for row in batch) <= MAX_BYTES


@given(rows)
def test_rows_without_shared_keys_go_in_the_order_they_came(given_rows: Rows) -> None:
    taken = take_all(queue([(frozenset(), size) for _, size in given_rows]))
    assert [int(row.key) for batch in taken for row in batch] == list(range(len(given_rows)))


def test_a_batch_is_bounded_and_so_is_the_look_for_it() -> None:
    assert [len(batch) for batch in take_all(queue([(frozenset(), 0)] * 600))] == [MAX_OPERATIONS, MAX_OPERATIONS, 88]
    crowded: Rows = [(frozenset("a"), 0)] * (MAX_LOOK_AHEAD + 10) + [(frozenset("b"), 0)]
    batches = queue(crowded)
    assert [entry.row.key for entry in batches.take()] == ["0"]
    for _ in range(11):
        seen = [entry.row.key for entry in batches.take()]
    assert seen == ["11", str(MAX_LOOK_AHEAD + 10)]


def test_what_arrives_later_never_overtakes_what_was_left_behind() -> None:
    batches = queue([(frozenset("a"), 0), (frozenset("ab"), 0)])
    assert [entry.row.key for entry in batches.take()] == ["0"]
    batches.queue.append(Entry(put, Put("late", ("b",)), Waiter()))
    assert [entry.row.key for entry in batches.take()] == ["1"]
    assert [entry.row.key for entry in batches.take()] == ["late"]
