"""The writer's thread over a real file: batches, who gets which error, and what is told when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

import store_operations
from perdure import failpoints
from perdure.errors import InternalError, InvalidInput, Retryable, StoreFailed
from perdure.store.batch import TRIES, Entry
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Again
from perdure.store.sqlite import SqliteStore, open_sqlite
from perdure.store.tx import Note, Tx
from perdure.store.writer import ThreadedWriter
from perdure.system import SystemClock, SystemRandom
from store_operations import PATIENCE, Put, Seen, Waiter, keys_in, put


@pytest.fixture(autouse=True)
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    fresh = Seen()
    monkeypatch.setattr(store_operations, "seen", fresh)
    return fresh


@pytest.fixture
def writer(store: SqliteStore) -> Iterator[ThreadedWriter]:
    writer = ThreadedWriter(store)
    yield writer
    writer.stop()


@contextmanager
def held(writer: ThreadedWriter, waiter: Waiter, seen: Seen) -> Iterator[None]:
    """Keep the writer inside a transaction, so that what is submitted meanwhile queues."""
    release = threading.Event()
    writer.submit(put, Put("held", waits=release), waiter)
    assert seen.began.wait(PATIENCE)
    try:
        yield
    finally:
        release.set()


@contextmanager
def armed(plan: str) -> Iterator[None]:
    failpoints.arm(plan)
    try:
        yield
    finally:
        failpoints.arm("")


def test_a_call_returns_when_it_is_committed(store: SqliteStore, writer: ThreadedWriter) -> None:
    assert writer.call(put, Put("a")) == "a of 1"
    assert keys_in(store) == ["a"]


def test_what_queues_during_a_commit_is_the_next_batch(store: SqliteStore, writer: ThreadedWriter, seen: Seen) -> None:
    waiter = Waiter()
    with held(writer, waiter, seen):
        for key in "cab":
            writer.submit(put, Put(key), waiter)
    entries = waiter.wait(4)
    assert seen.batches == [["held"], ["c", "a", "b"]]
    assert [entry.result for entry in entries] == ["held of 1", "c of 3", "a of 3", "b of 3"]
    assert writer.commits == 2


def test_a_key_occurs_once_in_a_batch_and_keeps_its_order(writer: ThreadedWriter, seen: Seen) -> None:
    waiter = Waiter()
    rows = [
        Put("1", ("x",)),
        Put("2", ("x", "y")),  # waits for 1
        Put("3", ("y",)),  # shares a key with 2, which waits
        Put("4", ("z",)),
        Put("5"),
        Put("6", ("x",)),
    ]
    with held(writer, waiter, seen):
        for row in rows:
            writer.submit(put, row, waiter)
    waiter.wait(7)
    assert seen.batches[1:] == [["1", "4", "5"], ["2"], ["3", "6"]]


def test_a_batch_has_256_operations_at_most(writer: ThreadedWriter, seen: Seen) -> None:
    waiter = Waiter()
    with held(writer, waiter, seen):
        for number in range(600):
            writer.submit(put, Put(f"{number:03}"), waiter)
    waiter.wait(601)
    assert [len(batch) for batch in seen.batches] == [1, 256, 256, 88]
    assert [key for batch in seen.batches[1:] for key in batch] == [f"{number:03}" for number in range(600)]


def test_a_batch_has_a_megabyte_at_most_but_a_larger_row_goes_alone(writer: ThreadedWriter, seen: Seen) -> None:
    waiter = Waiter()
    sizes = {"a": 600_000, "b": 300_000, "c": 200_000, "d": 5_000_000, "e": 1}
    with held(writer, waiter, seen):
        for key, size in sizes.items():
            writer.submit(put, Put(key, size=size), waiter)
    waiter.wait(6)
    assert seen.batches[1:] == [["a", "b"], ["c"], ["d"], ["e"]]


def test_a_long_queue_for_one_key_holds_nobody_else_up_for_long(writer: ThreadedWriter, seen: Seen) -> None:
    waiter = Waiter()
    with held(writer, waiter, seen):
        for number in range(100):
            writer.submit(put, Put(f"x{number}", ("x",)), waiter)
        writer.submit(put, Put("other"), waiter)
    waiter.wait(102)
    assert seen.batches[1] == ["x0", "other"]
    assert [batch[0] for batch in seen.batches[1:]] == [f"x{number}" for number in range(100)]


def test_only_the_row_that_raises_gets_the_error(store: SqliteStore, writer: ThreadedWriter, seen: Seen) -> None:
    waiter = Waiter()
    with held(writer, waiter, seen):
        for key in "abc":
            writer.submit(put, Put(key, raises=ValueError("no b") if key == "b" else None), waiter)
    a, b, c = waiter.wait(4)[1:]
    assert (a.result, c.result, str(b.error)) == ("a of 1", "c of 1", "no b")
    assert a.error is c.error is None
    assert keys_in(store) == ["a", "c", "held"]
    with pytest.raises(ValueError, match="no d"):
        writer.call(put, Put("d", raises=ValueError("no d")))


def test_a_value_that_cannot_be_stored_is_its_own_row_s_error(store: SqliteStore, writer: ThreadedWriter) -> None:
    with pytest.raises(InvalidInput):
        writer.call(put, Put("nul \0"))
    assert writer.call(put, Put("a")) == "a of 1"


def test_operations_of_a_batch_share_one_transaction(store: SqliteStore, writer: ThreadedWriter, seen: Seen) -> None:
    @operation()
    def count(tx: Tx, rows: Sequence[str]) -> Steps[int]:
        before = tx.row("contract_count")
        yield ()
        after = tx.row("contract_count")
        assert before is not None
        assert after is not None
        return [after["found"] - before["found"] for _ in rows]

    waiter = Waiter()
    with held(writer, waiter, seen):
        writer.submit(put, Put("a"), waiter)
        writer.submit(count, "x", waiter)
        writer.submit(put, Put("b"), waiter)
        writer.submit(count, "y", waiter)
    # all first halves run before any second half; operations in order of first arrival
    assert [entry.result for entry in waiter.wait(5)[1:]] == ["a of 2", 2, "b of 2", 2]
    assert writer.commits == 2


def test_nothing_is_told_before_the_commit_and_each_target_once(store: SqliteStore, seen: Seen) -> None:
    order: list[str] = []
    published: list[Note] = []
    one, two = Waiter(store), Waiter(store)

    def publish(notes: Sequence[Note]) -> None:
        order.append(f"published {len(one.calls)}")
        published.extend(notes)

    writer = ThreadedWriter(store, publish=publish)
    with held(writer, one, seen):
        writer.submit(put, Put("a"), one)
        writer.submit(put, Put("b"), two)
        writer.submit(put, Put("c"), one)
    one.wait(3)
    two.wait(1)
    writer.stop()
    assert [[entry.row.key for entry in entries] for entries in one.calls] == [["held"], ["a", "c"]]
    assert one.committed == [["held"], ["a", "b", "c", "held"]]
    assert order == ["published 1", "published 2"]
    assert [note.key for note in published] == ["held", "a", "b", "c"]


def test_a_listener_that_raises_does_not_stop_the_others(store: SqliteStore, seen: Seen) -> None:
    class Broken:
        def settle(self, entries: Sequence[Entry]) -> None:
            raise RuntimeError("the loop is closed")

    def publish(notes: Sequence[Note]) -> None:
        raise RuntimeError("nobody listens")

    writer = ThreadedWriter(store, publish=publish)
    waiter = Waiter()
    with held(writer, waiter, seen):
        writer.submit(put, Put("a"), Broken())
        writer.submit(put, Put("b"), waiter)
    assert waiter.wait(2)[1].result == "b of 2"
    assert writer.call(put, Put("c")) == "c of 1"
    writer.stop()


@pytest.mark.anyio
async def test_a_cancelled_future_does_not_keep_others_from_settling(writer: ThreadedWriter, seen: Seen) -> None:
    loop = asyncio.get_running_loop()

    class Bridge:
        def settle(self, entries: Sequence[Entry]) -> None:
            loop.call_soon_threadsafe(self.resolve, list(entries))

        def resolve(self, entries: Sequence[Entry]) -> None:
            for entry in entries:
                if not entry.token.done():
                    entry.token.set_result(entry.result)

    bridge, futures = Bridge(), [loop.create_future() for _ in range(3)]
    with held(writer, Waiter(), seen):
        for number, future in enumerate(futures):
            writer.submit(put, Put(str(number)), bridge, future)
        futures[1].cancel()
    assert await futures[2] == "2 of 3"
    assert (futures[0].result(), futures[1].cancelled()) == ("0 of 3", True)


def test_what_passes_is_tried_again_and_only_so_often(store: SqliteStore, writer: ThreadedWriter) -> None:
    tries: list[int] = []

    @operation()
    def unlucky(tx: Tx, rows: Sequence[int]) -> Steps[int]:
        yield ()
        tries.append(1)
        if len(tries) <= rows[0]:
            raise Again("deadlock")
        return [len(tries) for _ in rows]

    assert writer.call(unlucky, 3) == 4
    tries.clear()
    with pytest.raises(Retryable, match="deadlock") as caught:
        writer.call(unlucky, 1_000)
    assert (caught.value.code, len(tries)) == ("store_busy", TRIES)


def test_after_a_failed_store_everything_is_refused(store: SqliteStore, seen: Seen) -> None:
    class Usurper(Waiter):
        """Becomes the owner between two transactions: `settle` runs after one commit and before the next."""

        def settle(self, entries: Sequence[Entry]) -> None:
            other = open_sqlite(store.place, clock=SystemClock(), random=SystemRandom())
            other.take_over()
            other.close()
            super().settle(entries)

    failures: list[StoreFailed] = []
    writer = ThreadedWriter(store, on_failed=failures.append)
    store.take_over()
    waiter = Waiter()
    with held(writer, Usurper(), seen):
        for key in "abc":
            writer.submit(put, Put(key, ("x",)), waiter)
    errors = [entry.error for entry in waiter.wait(3)]
    assert [error.code for error in errors if isinstance(error, StoreFailed)] == ["store_taken"] * 3
    for refused in (lambda: writer.submit(put, Put("later"), waiter), lambda: keys_in(store)):
        with pytest.raises(StoreFailed) as caught:
            refused()
        assert caught.value.code == "store_taken"
    assert len(failures) == 1
    writer.stop()
    assert seen.batches == [["held"]]


def test_stopping_ends_what_was_accepted_and_refuses_the_rest(store: SqliteStore, seen: Seen) -> None:
    writer = ThreadedWriter(store)
    waiter = Waiter()
    release = threading.Event()
    writer.submit(put, Put("held", waits=release), waiter)
    assert seen.began.wait(PATIENCE)
    for number in range(300):
        writer.submit(put, Put(f"{number:03}", (f"{number % 3}",)), waiter)
    stopper = threading.Thread(target=writer.stop, name="stopper")
    stopper.start()
    release.set()
    stopper.join()
    assert len(waiter.entries) == 301
    assert all(entry.error is None for entry in waiter.entries)
    assert len(keys_in(store)) == 301
    writer.stop()
    with pytest.raises(Retryable) as caught:
        writer.submit(put, Put("late"), waiter)
    assert caught.value.code == "shutting_down"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_leaves_nobody_waiting(store: SqliteStore, seen: Seen) -> None:
    writer = ThreadedWriter(store)
    waiter = Waiter()
    with held(writer, waiter, seen):
        writer.submit(put, Put("a", raises=SystemExit()), waiter)
        writer.submit(put, Put("b", ("x",)), waiter)
        writer.submit(put, Put("c", ("x",)), waiter)
    errors = [entry.error for entry in waiter.wait(4)[1:]]
    assert [type(error) for error in errors] == [InternalError] * 3
    with pytest.raises(Retryable):
        writer.submit(put, Put("d"), waiter)
    writer.stop()
    assert keys_in(store) == ["held"]


def test_the_writer_s_own_thread_cannot_wait_for_it(store: SqliteStore) -> None:
    errors: list[Exception] = []

    def publish(notes: Sequence[Note]) -> None:
        try:
            writer.call(put, Put("b"))
        except InternalError as error:
            errors.append(error)

    writer = ThreadedWriter(store, publish=publish)
    writer.call(put, Put("a"))
    writer.stop()
    assert len(errors) == 1


def test_an_operation_that_breaks_the_protocol_is_our_bug(store: SqliteStore, writer: ThreadedWriter) -> None:
    @operation()
    def short(tx: Tx, rows: Sequence[int]) -> Steps[int]:
        tx.run("contract_put_key", company="default", start_key="short", execution="exe_1")
        yield ()
        return []

    @operation()
    def twice(tx: Tx, rows: Sequence[int]) -> Steps[int]:
        yield ()
        yield ()
        return [1]

    @operation()
    def early(tx: Tx, rows: Sequence[int]) -> Steps[int]:
        if rows:
            return [1]
        yield ()
        return []

    for wrong, why in ((short, "0 results for 1"), (twice, "yielded twice"), (early, "without its yield")):
        with pytest.raises(InternalError, match=why):
            writer.call(wrong, 1)
    assert keys_in(store) == []


def test_a_fault_before_the_commit_leaves_nothing_and_one_after_it_everything(
    store: SqliteStore, writer: ThreadedWriter
) -> None:
    with armed("put.before_commit=raise"), pytest.raises(failpoints.InjectedFault):
        writer.call(put, Put("a"))
    assert keys_in(store) == []
    with armed("put.after_commit=raise"), pytest.raises(failpoints.InjectedFault):
        writer.call(put, Put("b"))
    assert keys_in(store) == ["b"]


def test_many_threads_lose_nothing(store: SqliteStore, writer: ThreadedWriter) -> None:
    def lane(name: int) -> None:
        for number in range(100):
            assert writer.call(put, Put(f"{name}/{number}", (str(number % 7),))).startswith(f"{name}/{number} of")

    threads = [threading.Thread(target=lane, args=(name,), name=f"lane {name}") for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys_in(store)) == writer.operations == 800


def test_now_is_one_instant_for_a_whole_batch(writer: ThreadedWriter, seen: Seen) -> None:
    @operation()
    def when(tx: Tx, rows: Sequence[int]) -> Steps[int]:
        yield ()
        return [tx.now_ms for _ in rows]

    waiter = Waiter()
    with held(writer, waiter, seen):
        for number in range(10):
            writer.submit(when, number, waiter)
    assert len({entry.result for entry in waiter.wait(11)[1:]}) == 1


def test_operations_run_on_the_writer_s_thread(writer: ThreadedWriter) -> None:
    @operation()
    def who(tx: Tx, rows: Sequence[int]) -> Steps[str]:
        yield ()
        return [threading.current_thread().name for _ in rows]

    assert writer.call(who, 1) == "perdure-writer"
