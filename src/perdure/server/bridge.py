"""Ask the writer, and the store's readers, from an event loop. The only crossing between async and sync code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import anyio.to_thread

from perdure.errors import PerdureError
from perdure.store.batch import Entry
from perdure.store.operation import Operation
from perdure.store.protocol import Reads, Store
from perdure.store.writer import Writer

R = TypeVar("R")
T = TypeVar("T")


class Bridge:
    """One store as coroutines see it. Usable from any number of event loops at once."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._targets: dict[asyncio.AbstractEventLoop, _Target] = {}

    async def run(self, operation: Operation[R, T], row: R) -> T:
        """Return the row's result once it is durable. A refusal is returned, a failure raised.

        Cancelling the caller does not undo the operation: it may or may not have been committed.
        """
        target = self._target()
        future = target.loop.create_future()
        self._writer.submit(operation, row, target, future)
        return await future

    async def ask(self, operation: Operation[R, Any], row: R) -> Any:
        """Like `run`, and raise the refusals."""
        result = await self.run(operation, row)
        if isinstance(result, PerdureError):
            raise result
        return result

    async def read(self, query: Callable[[Reads], T]) -> T:
        """Run a query function on a reader, away from the loop."""

        def inside() -> T:
            with self._store.read() as reads:
                return query(reads)

        return await anyio.to_thread.run_sync(inside)

    def _target(self) -> _Target:
        loop = asyncio.get_running_loop()
        target = self._targets.get(loop)
        if target is None:
            target = self._targets[loop] = _Target(loop)
        return target


class _Target:
    """Resolves all entries of one batch on one loop with a single call across threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def settle(self, entries: Sequence[Entry]) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(_resolve, entries)


def _resolve(entries: Sequence[Entry]) -> None:
    for entry in entries:
        future: asyncio.Future[Any] = entry.token
        if future.done():  # its caller was cancelled
            continue
        if entry.error is not None:
            future.set_exception(entry.error)
        else:
            future.set_result(entry.result)
