"""Tell the source how attempts ended. One request at a time; what queued meanwhile goes into the next.

A result is said again, for ever, until it is answered. It is never dropped while the process lives, and with an outbox
not when it dies either.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from perdure import failpoints
from perdure.core.delivery import TOO_LARGE, UNKEPT, UNSERIALISABLE, Delivery
from perdure.core.ports import Clock, Random
from perdure.core.work import Answer, Failure, Report
from perdure.errors import InternalError, InvalidInput, LimitExceeded
from perdure.log import get_log
from perdure.wire.api import TaskSource
from perdure.worker.grip import Grip
from perdure.worker.link import Link, Trouble, why
from perdure.worker.outbox import Outbox
from perdure.worker.outbox_file import Kept
from perdure.worker.pace import Backoff, rest
from perdure.worker.shelf import Shelf
from perdure.worker.spool import Spool

log = get_log(__name__)

MAX_REPORTS = 256
MAX_BYTES = 4 * 1024 * 1024
"""In one request. A single larger value still travels, alone."""


@dataclass(slots=True)
class _Entry:
    grip: Grip
    report: Report
    size: int
    kept: Kept | None = None
    """As it was given to the outbox, if it was."""
    substitute: bool = False
    """It stands for a result that the server would not take."""


class Reports:
    """The owner of all results that are not answered yet."""

    def __init__(
        self, source: TaskSource, worker: str, link: Link, clock: Clock, random: Random, outbox: Outbox | None = None
    ) -> None:
        """`outbox` keeps the results of acting tasks on the disk before they are first told."""
        self._source, self._worker, self._clock = source, worker, clock
        self._link, self._outbox = link, outbox
        self.shelf = Shelf.over(source, Spool.beside(None if outbox is None else outbox.folder, worker))
        """Where results go that are too large for a log; None: nowhere."""
        self._queue: deque[_Entry] = deque()
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()
        """The connection changed: waiting any longer makes no sense."""
        link.watch(self._hurry.set)
        self._backoff = Backoff(random)
        self._trouble = Trouble("report")
        self._alone = 0
        """How many of the next reports go one by one, because together they were refused."""
        self._answered: Callable[[Grip], None] = _nobody
        self.idle = asyncio.Event()
        """Set while nothing waits for an answer."""
        self.idle.set()

    def when_answered(self, call: Callable[[Grip], None]) -> None:
        """Call `call` with each grip whose report was answered, whatever the answer."""
        self._answered = call

    @property
    def pending(self) -> int:
        """How many results wait for an answer."""
        return len(self._queue)

    def add(self, grip: Grip, report: Report, size: int = 0) -> None:
        """Take a result, to be delivered. `size` is that of its value in bytes."""
        self._queue.append(_Entry(grip, report, size))
        self.idle.clear()
        self._wake.set()

    def close(self) -> None:
        """Let go of the disk. What is left in the outbox is for the next worker."""
        if self._outbox is not None:
            self._outbox.close()
        if self.shelf is not None:
            if not self._queue:
                self.shelf.spool.clear()
            self.shelf.spool.close()

    async def run(self) -> None:
        """Deliver. Never returns."""
        while True:
            self._wake.clear()  # before looking: what comes in during a request goes into the next
            if self._queue:
                await self._deliver(self._batch())
            else:
                self.idle.set()
                await self._wake.wait()

    def _batch(self) -> list[_Entry]:
        batch: list[_Entry] = []
        size = 0
        for entry in self._queue:
            size += entry.size
            if batch and (self._alone or len(batch) == MAX_REPORTS or size > MAX_BYTES):
                break
            batch.append(entry)
        return batch

    async def _deliver(self, batch: list[_Entry]) -> None:
        self._hurry.clear()
        await self._keep(batch)
        try:
            if self.shelf is not None:
                await self.shelf.send(self._worker, (entry.report for entry in batch))
            answers = await self._send([entry.report for entry in batch])
        except (InvalidInput, LimitExceeded) as error:  # the request was understood and refused: not again like this
            self._refused(batch, error)
            return
        except Exception as error:  # noqa: BLE001 - whatever it was, the results still have to be delivered
            self._trouble.met(error)
            await rest(self._clock, self._backoff.pause(), self._hurry)
            return
        self._trouble.over()
        self._backoff.reset()
        self._alone = max(self._alone - 1, 0)
        said = list(zip(batch, answers, strict=True))
        for entry, answer in said:
            self._queue.popleft()
            _note(entry, answer)
            self._over(entry)
        if self._outbox is not None:
            await self._outbox.answered([(one.kept, answer) for one, answer in said if one.kept is not None])

    async def _keep(self, batch: list[_Entry]) -> None:
        """Put what acted on the disk, once; what may be repeated is not worth a sync."""
        if self._outbox is None:
            return
        fresh = [one for one in batch if one.kept is None and one.grip.task.delivery != Delivery.REPEATABLE]
        for one in fresh:
            one.kept = Kept(self._link.queues, self._worker, one.report, one.grip.nonce)
        await self._outbox.keep([one.kept for one in fresh if one.kept is not None])

    async def _send(self, reports: list[Report]) -> list[Answer]:
        failpoints.hit("worker.report.send")
        answers = await self._source.report(self._worker, reports)
        failpoints.hit("worker.report.received")
        if len(answers) != len(reports):
            raise InternalError(f"{len(reports)} reports were sent and {len(answers)} answers came back")
        return answers

    def _over(self, entry: _Entry) -> None:
        if self.shelf is not None:
            self.shelf.forget(entry.report, (one.report for one in self._queue))
        self._answered(entry.grip)

    def _refused(self, batch: list[_Entry], error: InvalidInput | LimitExceeded) -> None:
        """Find the one that cannot be taken, and say instead of it that there is a result which cannot be stored."""
        if len(batch) > 1:
            self._alone = len(batch)
            return
        entry = self._queue.popleft()
        facts = {"execution": entry.report.execution, "task": entry.report.address, "reason": why(error)}
        if entry.substitute:
            log.error("worker.result_undeliverable", **facts)
            self._over(entry)
            return
        log.warning("worker.result_not_taken", **facts, action="reporting a failure in its place")
        self._queue.appendleft(_Entry(entry.grip, in_its_place(entry.report, error), 0, substitute=True))


def in_its_place(report: Report, error: InvalidInput | LimitExceeded) -> Report:
    """Return what is said instead of a result that the server does not take, for whatever reason.

    The body gave it, so it must not look as if the body had failed: what acted would be done once more.
    """
    code = error.code
    if report.outcome == "completed" and code not in UNKEPT:
        code = TOO_LARGE if isinstance(error, LimitExceeded) else UNSERIALISABLE
    failure = Failure(code=code, message=f"the result could not be stored: {error.message}", permanent=True)
    return dataclasses.replace(report, outcome="failed", value=None, failure=failure)


def _note(entry: _Entry, answer: Answer) -> None:
    if answer in (Answer.LEASE_LOST, Answer.CONFLICT):
        facts = {"execution": entry.report.execution, "task": entry.report.address, "answer": str(answer)}
        log.warning("worker.result_refused", **facts, action="none: the task is somebody else's now")


def _nobody(grip: Grip) -> None:
    return None
