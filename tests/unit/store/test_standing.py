"""Wishes that stand: granted in the transaction that speaks to them, once, and at nobody else's cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure.errors import Retryable
from perdure.store.batch import Entry
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Store
from perdure.store.tx import Note, Tx
from perdure.store.writer import InlineWriter, ThreadedWriter, outcome
from perdure.testing.clock import FakeClock, SeededRandom
from perdure.testing.store_contract import contract_queries
from store_operations import Put, Waiter, keys_in, put
from which_store import open_store

A = (("tasks", "a"),)


@dataclass(frozen=True)
class Want:
    """Asks for the keys that are stored."""

    owner: str = "one"
    fails_on: str = ""
    """Raises once this key is there."""


@operation(keys=lambda row: (f"owner/{row.owner}",))
def want(tx: Tx, rows: Sequence[Want]) -> Steps[list[str]]:
    """Return the stored keys, to the first who asks."""
    yield ()
    found = [row["start_key"] for row in tx.rows("contract_keys", company="default")]
    for row in rows:
        if row.fails_on in found:
            raise ValueError(row.fails_on)
    return [found if number == 0 else [] for number in range(len(rows))]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "perdure.db", clock=FakeClock(), random=SeededRandom(), queries=contract_queries)
    yield store
    store.close()


@pytest.fixture
def writer(store: Store) -> InlineWriter:
    return InlineWriter(store)


def stand(writer: InlineWriter, waiter: Waiter, row: Want | None = None) -> Entry:
    entry = writer.submit(want, row or Want(), waiter, wants=A)
    writer.drain()
    return entry


def test_a_wish_is_granted_inside_the_commit_that_speaks_to_it(store: Store) -> None:
    told: list[tuple[list[str], list[Entry]]] = []
    waiter = Waiter(store)
    writer = InlineWriter(store, publish=lambda _notes: told.append((keys_in(store), waiter.entries)))
    wish = stand(writer, waiter)
    assert waiter.entries == []
    done = writer.submit(put, Put("a"), waiter)
    assert writer.run_batch() == 1
    assert waiter.calls == [[done, wish]]
    assert (outcome(wish), waiter.committed) == (["a"], [["a"]])
    assert told == [(["a"], [done, wish])]


def test_it_stands_through_what_does_not_concern_it(writer: InlineWriter) -> None:
    waiter, others = Waiter(), Waiter()
    stand(writer, waiter, Want())
    writer.call(put, Put("b"))
    assert waiter.entries == []
    writer.submit(put, Put("a"), others)
    writer.drain()
    assert [entry.result for entry in waiter.entries] == [["a", "b"]]


def test_it_is_granted_once(writer: InlineWriter) -> None:
    waiter = Waiter()
    stand(writer, waiter)
    writer.call(put, Put("a"))
    writer.call(put, Put("a"))
    assert len(waiter.entries) == 1
    assert not writer.pending


@pytest.mark.parametrize("first", ["wish", "row"])
def test_what_comes_in_the_same_batch_counts(writer: InlineWriter, first: str) -> None:
    waiter, others = Waiter(), Waiter()
    if first == "row":
        writer.submit(put, Put("a"), others)
    writer.submit(want, Want(), waiter, wants=A)
    if first == "wish":
        writer.submit(put, Put("a"), others)
    assert writer.run_batch() == 2
    assert [entry.result for entry in waiter.entries] == [["a"]]


def test_of_two_the_longest_standing_is_served_and_the_other_stands_on(writer: InlineWriter) -> None:
    waiter = Waiter()
    one = stand(writer, waiter)
    other = stand(writer, waiter, Want("two"))
    writer.call(put, Put("a"))
    assert waiter.entries == [one]
    writer.call(put, Put("a"))
    assert waiter.entries == [one, other]


def test_a_later_wish_of_the_same_owner_takes_its_place(writer: InlineWriter) -> None:
    waiter = Waiter()
    first = stand(writer, waiter)
    second = stand(writer, waiter)
    assert waiter.entries == [first]
    assert outcome(first) == []
    withdrawn = writer.submit(want, Want(), waiter)
    writer.drain()
    assert [outcome(entry) for entry in waiter.entries] == [[], [], []]
    assert waiter.entries == [first, second, withdrawn]
    writer.call(put, Put("a"))
    assert len(waiter.entries) == 3, "who asks no more is given nothing"


def test_one_that_fails_fails_alone(writer: InlineWriter, store: Store) -> None:
    waiter = Waiter()
    wish = stand(writer, waiter, Want(fails_on="a"))
    assert writer.call(put, Put("a")) == "a of 1"
    assert keys_in(store) == ["a"]
    with pytest.raises(ValueError, match="a"):
        outcome(wish)
    writer.call(put, Put("a"))
    assert waiter.entries == [wish]


def test_a_batch_that_runs_one_by_one_grants_each_wish_once(writer: InlineWriter) -> None:
    waiter, others = Waiter(), Waiter()
    writer.submit(put, Put("a"), others)
    writer.submit(put, Put("c", raises=ValueError("no c")), others)
    writer.submit(want, Want(), waiter, wants=A)
    assert writer.run_batch() == 3
    assert [entry.error is None for entry in others.entries] == [True, False]
    assert [outcome(entry) for entry in waiter.entries] == [["a"]]
    writer.call(put, Put("a"))
    assert len(waiter.entries) == 1


def test_it_is_told_when_the_writer_stops(store: Store) -> None:
    writer, waiter = ThreadedWriter(store), Waiter()
    writer.submit(want, Want(), waiter, wants=A)
    writer.call(put, Put("b"))
    writer.stop()
    (entry,) = waiter.wait(1)
    with pytest.raises(Retryable) as error:
        outcome(entry)
    assert error.value.code == "shutting_down"


def test_hints_are_of_the_whole_transaction(store: Store) -> None:
    notes: list[Note] = []
    writer = InlineWriter(store, publish=notes.extend)
    stand(writer, Waiter())
    writer.call(put, Put("a"))
    assert [(note.topic, note.key) for note in notes] == [("tasks", "a")]


@dataclass(frozen=True)
class WantOf(Want):
    """Asks for one kind of thing."""

    asks: str = ""


def ask_again(writer: InlineWriter, waiter: Waiter, row: Want, *, stands: bool = True) -> tuple[Entry, int]:
    """Ask as somebody for whom other processes did nothing; return the entry and how many transactions it took."""
    before = writer.commits
    entry = writer.submit(want, row, waiter, wants=A if stands else (), unchanged=True)
    writer.drain()
    return entry, writer.commits - before


def test_where_nothing_changed_a_wish_takes_anothers_place_without_a_transaction(writer: InlineWriter) -> None:
    waiter = Waiter()
    first = stand(writer, waiter)
    second, cost = ask_again(writer, waiter, Want())
    assert (cost, waiter.entries, outcome(first)) == (0, [first], [])
    writer.call(put, Put("a"))
    assert outcome(second) == ["a"], "it stands like any other"


def test_who_takes_a_wish_back_and_asks_again_is_told_of_what_came_in_between(writer: InlineWriter) -> None:
    waiter = Waiter()
    stand(writer, waiter)
    taken_back, cost = ask_again(writer, waiter, Want(), stands=False)
    assert (cost, outcome(taken_back)) == (0, [])
    _, cost = ask_again(writer, waiter, Want())
    assert cost == 0, "nothing was announced meanwhile"
    ask_again(writer, waiter, Want(), stands=False)
    writer.call(put, Put("a"))
    found, cost = ask_again(writer, waiter, Want())
    assert (cost, outcome(found)) == (1, ["a"])


def test_what_is_announced_in_the_batch_in_which_it_is_asked_again_counts(writer: InlineWriter) -> None:
    waiter, others = Waiter(), Waiter()
    stand(writer, waiter)
    ask_again(writer, waiter, Want(), stands=False)
    writer.submit(put, Put("a"), others)
    found, _ = ask_again(writer, waiter, Want())
    assert outcome(found) == ["a"]


def test_a_wish_that_was_granted_is_no_reason_not_to_look(writer: InlineWriter) -> None:
    waiter = Waiter()
    stand(writer, waiter)
    writer.call(put, Put("a"))
    found, cost = ask_again(writer, waiter, Want())
    assert (cost, outcome(found)) == (1, ["a"])


def test_a_wish_for_something_else_is_looked_for(writer: InlineWriter) -> None:
    waiter = Waiter()
    stand(writer, waiter, WantOf(asks="this"))
    assert ask_again(writer, waiter, WantOf(asks="that"))[1] == 1
    assert ask_again(writer, waiter, WantOf(asks="that"))[1] == 0
    assert ask_again(writer, waiter, WantOf("two", asks="that"))[1] == 1, "another's"


def test_a_transaction_that_is_undone_hides_nothing(writer: InlineWriter) -> None:
    waiter, others = Waiter(), Waiter()
    stand(writer, waiter)
    ask_again(writer, waiter, Want(), stands=False)
    writer.submit(put, Put("a"), others)
    writer.submit(put, Put("c", raises=ValueError("no c")), others)
    writer.drain()
    found, _ = ask_again(writer, waiter, Want())
    assert outcome(found) == ["a"]
