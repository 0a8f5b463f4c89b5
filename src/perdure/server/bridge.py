"""Ask the writer, and the store's readers, from an event loop. The only crossing between async and sync code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from perdure.errors import PerdureError
from perdure.mailbox import Mailbox, Mailboxes
from perdure.server.reading import Queries, Reading
from perdure.store.batch import Entry
from perdure.store.operation import Operation
from perdure.store.protocol import Reads, Store
from perdure.store.standing import Topic
from perdure.store.writer import Writer

R = TypeVar("R")
T = TypeVar("T")

Glance = tuple[Callable[[Reads], Any], asyncio.Future[Any]]


class Bridge:
    """One store as coroutines see it. Usable from any number of event loops at once."""

    def __init__(
        self, store: Store, writer: Writer, mail: Mailboxes | None = None, reading: Queries | None = None
    ) -> None:
        """`reading` takes the place of reading threads of its own."""
        self._reading: Queries = reading or Reading(store)
        self._writer = writer
        self._mail = mail or Mailboxes()
        self._targets: dict[asyncio.AbstractEventLoop, _Target] = {}

    def run(
        self, operation: Operation[R, T], row: R, wants: tuple[Topic, ...] = (), *, unchanged: bool = False
    ) -> asyncio.Future[T]:
        """Submit a row at once; await its result, which comes when it is durable. A refusal is returned, a failure
        raised, and only where it is awaited. For `wants` and `unchanged` see `Writer.submit`.

        Cancelling the caller does not undo the operation: it may or may not have been committed.
        """
        target = self._target()
        future: asyncio.Future[T] = target.loop.create_future()
        try:
            self._writer.submit(operation, row, target, future, wake=False, wants=wants, unchanged=unchanged)
            target.wake_soon(self._writer)
        except Exception as error:  # noqa: BLE001 - the caller's, where it waits
            future.set_exception(error)
        return future

    def tell(self, operation: Operation[R, Any], row: R, *, unchanged: bool = False) -> None:
        """Submit a row whose result concerns nobody."""
        self.run(operation, row, unchanged=unchanged).add_done_callback(
            lambda said: said.cancelled() or said.exception()
        )

    async def ask(self, operation: Operation[R, Any], row: R) -> Any:
        """Like `run`, and raise the refusals."""
        result = await self.run(operation, row)
        if isinstance(result, PerdureError):
            raise result
        return result

    async def read(self, query: Callable[[Reads], T]) -> T:
        """Run a query function on a reader, away from the loop. Cancelling the caller does not end it."""
        target = self._target()
        future: asyncio.Future[T] = target.loop.create_future()
        self._reading.submit(query, partial(target.answer, future))
        return await future

    async def glance(self, query: Callable[[Reads], T]) -> T:
        """Like `read`, for a look at a row or two: all that this turn of the loop asks for share one view."""
        target = self._target()
        future: asyncio.Future[T] = target.loop.create_future()
        if not target.glances:
            target.loop.call_soon(self._look, target)
        target.glances.append((query, future))
        return await future

    def _look(self, target: _Target) -> None:
        asked, target.glances = target.glances, []
        answers = _Answers(asked)
        try:
            self._reading.submit(answers.find, partial(target.answer_all, answers))
        except Exception as error:  # noqa: BLE001 - theirs who wait
            answers.give(None, error)

    def close(self) -> None:
        """End the reading threads. Blocks until queries under way have ended; the writer is somebody else's."""
        self._reading.close()

    def _target(self) -> _Target:
        loop = asyncio.get_running_loop()
        target = self._targets.get(loop)
        if target is None:
            # Loops come and go with their programs' `asyncio.run`; those that are closed ask nothing more.
            self._targets = {known: one for known, one in self._targets.items() if not known.is_closed()}
            target = self._targets[loop] = _Target(self._mail.of(loop))
        return target


class _Target:
    """Resolves futures of one loop, as many as came up with a single call across threads."""

    def __init__(self, mail: Mailbox) -> None:
        self.loop = mail.loop
        self._mail = mail
        self.glances: list[Glance] = []
        """Those that this turn of the loop has asked for."""
        self._waking = False
        """Whether the writer is to be woken when the loop has run what is ready now."""

    def wake_soon(self, writer: Writer) -> None:
        """Wake the writer once for all that this turn of the loop submits: many rows that come together commit so."""
        if not self._waking:
            self._waking = True
            self.loop.call_soon(self._wake, writer)

    def _wake(self, writer: Writer) -> None:
        self._waking = False
        writer.wake()

    def settle(self, entries: Sequence[Entry]) -> None:
        self._mail.put(partial(_resolve_all, entries))

    def answer(self, future: asyncio.Future[Any], found: Any, error: BaseException | None) -> None:
        self._mail.put(partial(_resolve, future, found, error))

    def answer_all(self, answers: _Answers, found: Any, error: BaseException | None) -> None:
        self._mail.put(partial(answers.give, found, error))


class _Answers:
    """What comes of glances that share one view. One that fails concerns no other."""

    def __init__(self, asked: Sequence[Glance]) -> None:
        self._asked = asked

    def find(self, reads: Reads) -> list[tuple[Any, BaseException | None]]:
        return [_attempt(query, reads) for query, _ in self._asked]

    def give(self, found: list[tuple[Any, BaseException | None]] | None, error: BaseException | None) -> None:
        """Resolve the futures, on their loop: each with its own outcome, or all with the error of the view."""
        for (_, future), (result, own) in zip(self._asked, found or [(None, error)] * len(self._asked), strict=True):
            _resolve(future, result, own)


def _attempt(query: Callable[[Reads], Any], reads: Reads) -> tuple[Any, BaseException | None]:
    try:
        return query(reads), None
    except PerdureError as refusal:
        return None, refusal


def _resolve_all(entries: Sequence[Entry]) -> None:
    for entry in entries:
        _resolve(entry.token, entry.result, entry.error)


def _resolve(future: asyncio.Future[Any], found: Any, error: BaseException | None) -> None:
    if future.done():  # its caller was cancelled
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(found)
