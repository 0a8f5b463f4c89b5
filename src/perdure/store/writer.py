"""All writes of a process, through one thread and in natural batches: what queues during a commit is the next batch.

The only place in the store with a thread. No timer: an idle writer commits at once. An entry is settled, and hints are
published, strictly after its commit.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from perdure.errors import InternalError, PerdureError, Retryable, StoreFailed
from perdure.store.batch import Batches, Entry, Publish, Settle
from perdure.store.operation import Operation
from perdure.store.protocol import Store
from perdure.store.standing import Topic
from perdure.store.tx import Note

R = TypeVar("R")
T = TypeVar("T")

PAUSE_SECONDS = 0.005
"""After the first failed try of a batch; doubles from there."""
MAX_PAUSE_SECONDS = 1.0


class Writer(Protocol):
    """Takes operations for one store. Safe from any thread."""

    def submit(
        self,
        operation: Operation[R, Any],
        row: R,
        target: Settle,
        token: Any = None,
        *,
        wake: bool = True,
        wants: tuple[Topic, ...] = (),
        unchanged: bool = False,
    ) -> Entry:
        """Queue a row and return at once; `target.settle` gets the entry, with `token` in it, when it has ended.

        With `wake=False` it may lie there until `wake` is called: for whoever has more rows coming at once. With
        `wants`, an empty result is not told: it stands, and is run again by each transaction that announces one of
        these, inside it, until it has a result or an entry with the same key takes its place.
        With `unchanged`, the caller knows that other processes have made nothing for it since the last wish with its
        key. If that one found nothing, asked for the same (`asks` of its row), and nothing it wanted was announced
        since, this one takes its place without being run: it stands or, without `wants`, ends with the same result.
        Raises StoreFailed once the store has failed, Retryable (`shutting_down`) after `stop`, and whatever the
        operation's `keys` raise: in these cases `settle` is not called.
        """
        ...

    @property
    def commits(self) -> int:
        """Batches committed so far."""
        ...

    def wake(self) -> None:
        """See to what is queued."""
        ...

    def call(self, operation: Operation[R, T], row: R) -> T:
        """Wait for the row's result, or raise what the operation raised. Blocks the calling thread."""
        ...

    def stop(self) -> None:
        """Accept no more, end what was accepted, and return then. Safe to call twice."""
        ...


def _no_hints(_notes: Sequence[Note]) -> None:
    return


def _not_told(_error: StoreFailed) -> None:
    return


class ThreadedWriter:
    """`Writer` with a thread of its own, named `perdure-writer`. Does not close the store."""

    def __init__(
        self,
        store: Store,
        *,
        publish: Publish = _no_hints,
        on_failed: Callable[[StoreFailed], None] = _not_told,
    ) -> None:
        """Start the thread. It calls `publish` after each commit that gave hints, and `on_failed` once, if ever."""
        self._batches = Batches(store, publish, on_failed)
        self._lock = threading.Lock()
        """Guards the step from `_stopping` to the queue: nothing is queued behind the last look."""
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._idle = False
        """Written by the writer's thread: whether it is about to wait, so that busy times need no wake-ups."""
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="perdure-writer")
        self._thread.start()

    @property
    def commits(self) -> int:
        """Batches committed so far."""
        return self._batches.commits

    @property
    def operations(self) -> int:
        """Rows committed so far."""
        return self._batches.operations

    def submit(
        self,
        operation: Operation[R, Any],
        row: R,
        target: Settle,
        token: Any = None,
        *,
        wake: bool = True,
        wants: tuple[Topic, ...] = (),
        unchanged: bool = False,
    ) -> Entry:
        if self._pid != os.getpid():
            what = "the writer belongs to the process that this one was forked from; make a runtime after the fork"
            raise StoreFailed(what, code="store_forked")
        entry = Entry(operation, row, target, token, wants, unchanged)
        with self._lock:
            self._refuse()
            self._batches.queue.append(entry)
        if wake:
            self.wake()
        return entry

    def wake(self) -> None:
        if self._idle:
            self._wake.set()

    def call(self, operation: Operation[R, T], row: R) -> T:
        if threading.current_thread() is self._thread:
            raise InternalError("the writer's own thread cannot wait for the writer")
        done = _Blocked()
        entry = self.submit(operation, row, done)
        done.wait()
        return outcome(entry)

    def stop(self) -> None:
        if self._pid != os.getpid():
            return  # the thread is the parent's
        with self._lock:
            self._stopping.set()
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _refuse(self) -> None:
        if self._batches.failed is not None:
            raise StoreFailed(self._batches.failed.message, code=self._batches.failed.code)
        if self._stopping.is_set():
            raise Retryable("this process is shutting down; send it to another, or again later", code="shutting_down")

    def _run(self) -> None:
        error: PerdureError = InternalError("the writer's thread ended unexpectedly; see the log")
        try:
            while self._more():
                # Whoever submits now wants the interpreter's lock: let them have it once, and their rows come along.
                time.sleep(0)
                self._batches.run(self._pause)
            error = Retryable("this process is shutting down", code="shutting_down")
        finally:
            with self._lock:
                self._stopping.set()
            self._batches.fail_all(error)

    def _more(self) -> bool:
        """Wait until there is something to do. False when stopped and drained."""
        while not self._batches:
            if self._stopping.is_set():
                with self._lock:  # whoever got in before `stop` has queued by now
                    return bool(self._batches)
            self._idle = True
            # Clear, then look: an entry that arrives from here on sees `_idle` and wakes us.
            self._wake.clear()
            if not self._batches and not self._stopping.is_set():
                self._wake.wait()
            self._idle = False
        return True

    def _pause(self, attempt: int) -> None:
        self._stopping.wait(min(PAUSE_SECONDS * 2 ** (attempt - 1), MAX_PAUSE_SECONDS))


class InlineWriter:
    """`Writer` without a thread: batches run when asked, or when somebody waits. For simulations and tests.

    Used by one thread at a time.
    """

    def __init__(
        self,
        store: Store,
        *,
        publish: Publish = _no_hints,
        on_failed: Callable[[StoreFailed], None] = _not_told,
    ) -> None:
        self._batches = Batches(store, publish, on_failed)
        self._stopped = False

    @property
    def commits(self) -> int:
        return self._batches.commits

    @property
    def pending(self) -> bool:
        """Whether entries wait for `run_batch`."""
        return bool(self._batches)

    def submit(
        self,
        operation: Operation[R, Any],
        row: R,
        target: Settle,
        token: Any = None,
        *,
        wake: bool = True,
        wants: tuple[Topic, ...] = (),
        unchanged: bool = False,
    ) -> Entry:
        if self._batches.failed is not None:
            raise StoreFailed(self._batches.failed.message, code=self._batches.failed.code)
        if self._stopped:
            raise Retryable("the writer was stopped", code="shutting_down")
        entry = Entry(operation, row, target, token, wants, unchanged)
        self._batches.queue.append(entry)
        return entry

    def wake(self) -> None:
        return  # whoever owns it runs the batches

    def run_batch(self) -> int:
        """Commit one batch of what is queued and return how many entries it settled."""
        return self._batches.run(lambda _attempt: None)

    def drain(self) -> None:
        """Run batches until nothing is queued."""
        while self.run_batch():
            pass

    def call(self, operation: Operation[R, T], row: R) -> T:
        done = _Ended()
        entry = self.submit(operation, row, done)
        while not done.ended:
            self.run_batch()
        return outcome(entry)

    def stop(self) -> None:
        self._stopped = True
        self.drain()


def outcome(entry: Entry) -> Any:
    """Return a settled entry's result, or raise its error."""
    if entry.error is not None:
        raise entry.error
    return entry.result


class _Blocked:
    """A thread that waits for one entry. A bare lock: an Event costs five times as much."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self) -> None:
        self._lock.acquire()

    def settle(self, entries: Sequence[Entry]) -> None:
        self._lock.release()


class _Ended:
    ended = False

    def settle(self, entries: Sequence[Entry]) -> None:
        self.ended = True
