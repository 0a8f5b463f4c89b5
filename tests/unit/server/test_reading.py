"""The threads that read: as many as are needed, never more than readers, and gone when closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from perdure.errors import StoreFailed
from perdure.server.reading import Reading
from perdure.store.pool import READERS
from perdure.store.protocol import Reads, Store
from perdure.testing.clock import FakeClock, SeededRandom
from which_store import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "p.db", clock=FakeClock(), random=SeededRandom())
    yield store
    store.close()


@pytest.fixture
def reading(store: Store) -> Iterator[Reading]:
    reading = Reading(store)
    yield reading
    reading.close()


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("perdure-reader")]


def test_results_and_errors_reach_whoever_asked(reading: Reading) -> None:
    answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def fails(_reads: Reads) -> None:
        raise ZeroDivisionError

    reading.submit(lambda reads: reads.row("any_key"), lambda *answer: answers.put(answer))
    assert answers.get(timeout=10) == (None, None)
    reading.submit(fails, lambda *answer: answers.put(answer))
    found, error = answers.get(timeout=10)
    assert found is None
    assert isinstance(error, ZeroDivisionError)
    assert len(readers()) <= 2


def test_queries_side_by_side_take_no_more_threads_than_there_are_readers(reading: Reading) -> None:
    answers: SimpleQueue[Any] = SimpleQueue()
    hold = threading.Event()
    for _ in range(3 * READERS):
        reading.submit(lambda _reads: hold.wait(60), lambda *answer: answers.put(answer))
    assert len(readers()) == READERS
    hold.set()
    assert [answers.get(timeout=10) for _ in range(3 * READERS)] == [(True, None)] * 3 * READERS


def test_closing_answers_what_was_asked_and_refuses_more(reading: Reading) -> None:
    answers: list[Any] = []
    for _ in range(2 * READERS):
        reading.submit(lambda _reads: 1, lambda *answer: answers.append(answer))
    reading.close()
    assert answers == [(1, None)] * 2 * READERS
    assert readers() == []
    with pytest.raises(StoreFailed) as caught:
        reading.submit(lambda _reads: 1, lambda *answer: answers.append(answer))
    assert caught.value.code == "store_closed"
