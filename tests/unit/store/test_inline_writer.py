"""The writer without a thread: the same batches, run when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from perdure.errors import Retryable, StoreFailed
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Again, Store
from perdure.store.tx import Note, Tx
from perdure.store.writer import InlineWriter
from perdure.testing.clock import FakeClock, SeededRandom
from perdure.testing.store_contract import contract_queries
from store_operations import Put, Waiter, keys_in, put
from which_store import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "perdure.db", clock=FakeClock(), random=SeededRandom(), queries=contract_queries)
    yield store
    store.close()


def test_nothing_happens_until_a_batch_is_asked_for(store: Store) -> None:
    writer, waiter = InlineWriter(store), Waiter()
    for key in ("a", "b"):
        writer.submit(put, Put(key, ("x",)), waiter)
    assert (writer.pending, waiter.entries, keys_in(store)) == (True, [], [])
    assert writer.run_batch() == 1
    assert (writer.pending, keys_in(store)) == (True, ["a"])
    assert writer.run_batch() == 1
    assert writer.run_batch() == 0
    assert [entry.result for entry in waiter.entries] == ["a of 1", "b of 1"]


def test_a_call_runs_what_was_queued_before_it(store: Store) -> None:
    writer, waiter = InlineWriter(store), Waiter()
    writer.submit(put, Put("a", ("x",)), waiter)
    assert writer.call(put, Put("b", ("x",))) == "b of 1"
    assert [entry.result for entry in waiter.entries] == ["a of 1"]
    with pytest.raises(ValueError, match="no c"):
        writer.call(put, Put("c", raises=ValueError("no c")))


def test_hints_come_after_the_commit(store: Store) -> None:
    committed: list[list[str]] = []

    def publish(notes: Sequence[Note]) -> None:
        committed.append(keys_in(store))

    InlineWriter(store, publish=publish).call(put, Put("a"))
    assert committed == [["a"]]


def test_it_tries_again_without_waiting(store: Store) -> None:
    tries: list[int] = []

    @operation()
    def unlucky(tx: Tx, rows: Sequence[int]) -> Steps[int]:
        yield ()
        tries.append(1)
        if len(tries) < 3:
            raise Again("deadlock")
        return [len(tries) for _ in rows]

    assert InlineWriter(store).call(unlucky, 0) == 3


def test_stopping_drains_and_then_refuses(store: Store) -> None:
    writer, waiter = InlineWriter(store), Waiter()
    for number in range(3):
        writer.submit(put, Put(str(number), ("x",)), waiter)
    writer.stop()
    assert len(waiter.entries) == 3
    with pytest.raises(Retryable):
        writer.submit(put, Put("late"), waiter)


def test_a_failed_store_refuses_everything_and_tells_once(store: Store) -> None:
    failures: list[StoreFailed] = []
    writer, waiter = InlineWriter(store, on_failed=failures.append), Waiter()
    for number in range(3):
        writer.submit(put, Put(str(number), ("x",)), waiter)
    store.close()
    writer.drain()
    assert [type(entry.error) for entry in waiter.entries] == [StoreFailed] * 3
    with pytest.raises(StoreFailed):
        writer.submit(put, Put("late"), waiter)
    assert [failure.code for failure in failures] == ["store_closed"]


@pytest.mark.sqlite_only("an emptied database has its name already")
def test_the_same_seed_makes_the_same_store(tmp_path: Path) -> None:
    ids = []
    for name in ("a", "b"):
        store = open_store(tmp_path / name, clock=FakeClock(), random=SeededRandom(7))
        ids.append(store.id)
        store.close()
    assert ids[0] == ids[1]
