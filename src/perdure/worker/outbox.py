"""Keep results of acting tasks on the disk before they are first told, so that a killed worker's are not lost.

Costs one sync per request of reports, in a thread: heartbeats go on meanwhile. A disk that does not take them is
reported, and they are told all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from perdure.core.ports import Clock
from perdure.core.work import Answer, WorkerInfo
from perdure.log import get_log
from perdure.wire import worker_lock
from perdure.worker.outbox_file import Kept, Key, OutboxFile, keep_evidence, mark_of, record_of

log = get_log(__name__)

REFUSALS = frozenset({Answer.LEASE_LOST, Answer.CONFLICT})


class Outbox:
    """The results of one worker that lie on its disk. Owner: the worker; used on its loop alone."""

    def __init__(self, folder: Path, worker: str, clock: Clock) -> None:
        self.folder = folder
        self._worker, self._clock = worker, clock
        self._open: set[Key] = set()
        """On the disk, not answered."""
        self._in_trouble = False
        self._file: OutboxFile | None = None

    def open(self) -> None:
        """Make the worker's file and lock it. A disk that refuses is reported: then there is no lock and no file."""
        try:
            self._file = OutboxFile.create(self.folder, self._worker)
        except OSError as error:
            facts = {"folder": str(self.folder), "reason": str(error)}
            log.warning("outbox.none", **facts, action="results are told, and not kept on the disk meanwhile")

    @property
    def lock(self) -> str:
        """The file that is locked while this worker lives; empty if there is none."""
        return "" if self._file is None else str(self._file.path)

    @property
    def path(self) -> Path | None:
        """The same as a path."""
        return None if self._file is None else self._file.path

    def proving(self, info: WorkerInfo) -> WorkerInfo:
        """Add to what a worker says of itself how its death can be proved."""
        return replace(info, machine=worker_lock.machine(), lock=self.lock) if self.lock else info

    async def keep(self, results: Sequence[Kept]) -> None:
        """Return when the results are on the disk, or it was reported that they cannot be."""
        if self._file is None or not results:
            return
        file = self._file
        if await self._try(lambda: file.append([record_of(one) for one in results], sync=True)):
            self._open.update(one.key for one in results)

    async def answered(self, results: Sequence[tuple[Kept, Answer]]) -> None:
        """Forget results that were answered; those that were refused become evidence first."""
        for kept, answer in results:
            if answer in REFUSALS:
                await self._try(partial(self._testify, kept, str(answer)))
        file, marks = self._file, [(one.key, answer) for one, answer in results if one.key in self._open]
        self._open.difference_update(key for key, _ in marks)
        if file is None or not marks:
            return
        if self._open:
            await self._try(lambda: file.append([mark_of(*mark) for mark in marks], sync=False))
        else:
            await self._try(file.clear)

    def close(self) -> None:
        """Let go of the file. What is left in it is for the next worker."""
        if self._file is not None:
            self._file.close(remove=not self._open)

    def _testify(self, kept: Kept, answer: str) -> None:
        keep_evidence(self.folder, kept, answer, self._clock.wall_ms())

    async def _try(self, act: Callable[[], None]) -> bool:
        """Do something to the disk in a thread; report what fails once, until it works again."""
        try:
            await asyncio.to_thread(act)
        except OSError as error:
            if not self._in_trouble:
                self._in_trouble = True
                facts = {"worker": self._worker, "folder": str(self.folder), "reason": str(error)}
                log.warning("outbox.disk", **facts, action=_HELP)
            return False
        if self._in_trouble:
            self._in_trouble = False
            log.info("outbox.disk_recovered", worker=self._worker)
        return True


_HELP = "make room or mend the folder; results are still told, but a kill now could lose them"
