"""Run queries on a few threads of their own, so that no event loop waits for the disk. Reads only; knows no loops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol

from perdure.store.life import closed
from perdure.store.pool import READERS
from perdure.store.protocol import Reads, Store

Query = Callable[[Reads], Any]
Answer = Callable[[Any, BaseException | None], None]
"""Takes the result, or the error. Called on a reading thread; must be quick and must not raise."""


class Queries(Protocol):
    """Runs queries for one store. Safe from any thread."""

    def submit(self, query: Query, answer: Answer) -> None:
        """Have a query run within a view of its own. Raises StoreFailed (`store_closed`) after `close`."""
        ...

    def close(self) -> None:
        """Answer what was submitted, and return then. Safe to call twice."""
        ...


class Reading:
    """Threads that wait for the next query, as many as there are readers and as are needed. Safe from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._work: SimpleQueue[tuple[Query, Answer] | None] = SimpleQueue()
        self._lock = threading.Lock()
        """Guards what follows."""
        self._threads: list[threading.Thread] = []
        self._open = 0
        """Queries not answered yet."""
        self._closed = False

    def submit(self, query: Query, answer: Answer) -> None:
        """Have a query run within a view of its own. Raises StoreFailed (`store_closed`) after `close`."""
        with self._lock:
            if self._closed:
                raise closed()
            self._open += 1
            if len(self._threads) < min(self._open, READERS):
                name = f"perdure-reader {len(self._threads) + 1}"
                self._threads.append(threading.Thread(target=self._serve, name=name))
                self._threads[-1].start()
            self._work.put((query, answer))

    def close(self) -> None:
        """Answer what was submitted, and return when the threads have ended. Safe to call twice."""
        with self._lock:
            self._closed = True
            ending, self._threads = self._threads, []
        for _ in ending:
            self._work.put(None)
        for thread in ending:
            thread.join()

    def _serve(self) -> None:
        while (asked := self._work.get()) is not None:
            self._answer(*asked)
            del asked  # what the query holds need not live while the thread waits

    def _answer(self, query: Query, answer: Answer) -> None:
        found: Any = None
        error: BaseException | None = None
        try:
            with self._store.read() as reads:
                found = query(reads)
        except BaseException as raised:  # noqa: BLE001 - whatever it was, it belongs to whoever asked
            error = raised
        with self._lock:
            self._open -= 1
        answer(found, error)
