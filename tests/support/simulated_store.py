"""The real store and its batches, on the simulated loop: slow, refused, applied and reported failed; or the process
dies on either side of a commit. One thread: what the writer's and the readers' threads do are callbacks here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from perdure.errors import StoreFailed, StoreFull
from perdure.server.reading import Answer, Query
from perdure.store.batch import Publish
from perdure.store.life import closed
from perdure.store.operation import Operation
from perdure.store.protocol import Again, Connection, Reads, Store
from perdure.store.writer import InlineWriter
from simulated_processes import Killed, Process


@dataclass(frozen=True, slots=True)
class Disk:
    """How likely each mishap is, per write transaction, and how long a commit takes."""

    refused: float = 0.0
    """`Again` before anything was changed, as a deadlock is."""
    unsure: float = 0.0
    """`Again` after it was committed: the connection broke at COMMIT."""
    full: float = 0.0
    fails: float = 0.0
    """`StoreFailed`, half of the time after it was committed."""
    dies: float = 0.0
    """The process dies, half of the time after the commit."""
    slow: float = 0.0
    slow_seconds: float = 1.0


SOUND = Disk()


class FaultyStore:
    """`Store` over another, in one process. Keeps when each moment of the store's clock really was."""

    def __init__(
        self, inner: Store, process: Process, dice: random.Random, moments: dict[int, int], *, shared: bool
    ) -> None:
        """`moments`: from the store's milliseconds to the world's; shared by all who open the store."""
        self.shared = shared
        self.id, self.token_key, self.dialect = inner.id, inner.token_key, inner.dialect
        self.disk = SOUND
        self.mishaps = 0
        self._inner, self._process, self._dice = inner, process, dice
        self._loop = asyncio.get_running_loop()
        self._moments = moments
        self._unlucky = 0
        """How many more tries are refused, once one was."""

    @contextmanager
    def write(self) -> Generator[Connection]:
        disk = self.disk
        self._refuse(disk)
        dies, fails = self._happens(disk.dies), self._happens(disk.fails)
        after = self._dice.random() < 0.5
        with self._inner.write() as connection:
            yield connection
            if dies and not after:
                self._process.kill()
                raise Killed
            if fails and not after:
                raise StoreFailed("the disk refused the write")
            self._moments[connection.now_ms] = round(self._loop.time() * 1000)
        if dies:
            self._process.kill()
            raise Killed
        if fails:
            raise StoreFailed("the disk refused the sync")
        if self._happens(disk.unsure):
            raise Again("the connection broke at COMMIT")

    @contextmanager
    def read(self) -> Generator[Reads]:
        with self._inner.read() as reads:
            yield reads

    def fleeting(self) -> FaultyStore:
        return self

    def close(self) -> None:
        self._inner.close()

    def _refuse(self, disk: Disk) -> None:
        if self._unlucky:
            self._unlucky -= 1
            raise Again("deadlock")
        if self._happens(disk.refused):
            self._unlucky = self._dice.choice((0, 0, 1, 12))  # the last outlasts all the tries of a batch
            raise Again("deadlock")
        if self._happens(disk.full):
            raise StoreFull("the disk is full")

    def _happens(self, chance: float) -> bool:
        found = chance > 0 and self._dice.random() < chance
        self.mishaps += found
        return found


class LoopWriter:
    """`Writer` whose batches are callbacks, a little after they are asked for."""

    def __init__(
        self, store: Store, *, publish: Publish, on_failed: Callable[[StoreFailed], None], dice: random.Random
    ) -> None:
        self._inline = InlineWriter(store, publish=publish, on_failed=on_failed)
        self._store, self._dice = cast("FaultyStore", store), dice
        self._loop = asyncio.get_running_loop()
        self._woken = False

    def submit(
        self,
        operation: Operation[Any, Any],
        row: Any,
        target: Any,
        token: Any = None,
        *,
        wake: bool = True,
        **more: Any,
    ) -> Any:
        entry = self._inline.submit(operation, row, target, token, **more)
        if wake:
            self.wake()
        return entry

    @property
    def commits(self) -> int:
        return self._inline.commits

    def wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._loop.call_later(self._takes(), self._run)

    def call(self, operation: Operation[Any, Any], row: Any) -> Any:
        return self._inline.call(operation, row)

    def stop(self) -> None:
        self._inline.stop()

    def _takes(self) -> float:
        disk = self._store.disk
        if disk.slow and self._dice.random() < disk.slow:
            return self._dice.uniform(0, disk.slow_seconds)
        return self._dice.uniform(0.0001, 0.003)

    def _run(self) -> None:
        self._woken = False
        try:
            self._inline.run_batch()
        except Killed:
            return
        if self._inline.pending:
            self.wake()


class LoopReading:
    """`Queries` as callbacks: a view is taken some time after it is asked for, and answered some time after that."""

    def __init__(self, store: Store, dice: random.Random) -> None:
        self._store, self._dice = store, dice
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def submit(self, query: Query, answer: Answer) -> None:
        if self._closed:
            raise closed()
        self._loop.call_later(self._dice.uniform(0, 0.001), self._look, query, answer)

    def close(self) -> None:
        self._closed = True

    def _look(self, query: Query, answer: Answer) -> None:
        found: Any = None
        error: BaseException | None = None
        try:
            with self._store.read() as reads:
                found = query(reads)
        except Exception as raised:  # noqa: BLE001 - whatever it was, it belongs to whoever asked
            error = raised
        self._loop.call_later(self._dice.uniform(0, 0.001), answer, found, error)
