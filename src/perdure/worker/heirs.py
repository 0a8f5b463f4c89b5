"""Deliver what dead workers of this user left on the disk. A living one's file is locked, and left alone.

Only to the queues that a result came from. Whatever the answer, a result that was answered is done with; a refused one
is kept as evidence, because its effect may have happened.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from perdure import failpoints
from perdure.core.ports import Clock
from perdure.core.work import Answer, Report
from perdure.errors import InternalError, InvalidInput, LimitExceeded
from perdure.log import get_log
from perdure.wire.api import TaskSource
from perdure.worker.link import Link, Trouble, why
from perdure.worker.outbox import REFUSALS, Outbox
from perdure.worker.outbox_file import Content, Kept, OutboxFile, keep_evidence, mark_of, paths_of
from perdure.worker.pace import rest
from perdure.worker.reports import MAX_REPORTS, in_its_place
from perdure.worker.shelf import Shelf
from perdure.worker.spool import Spool

log = get_log(__name__)

LOOK_SECONDS = 1.0
"""Between two looks for files whose workers died: a fraction of what the server then leaves of their leases."""


_DAMAGED = (
    "kept for a look: lines that a power cut tore were never told; if they were altered, their effects are uncertain"
)


class Heirs:
    """What one worker does about its dead neighbours."""

    def __init__(self, source: TaskSource, link: Link, outbox: Outbox, clock: Clock) -> None:
        self._source, self._link, self._outbox, self._clock = source, link, outbox, clock
        self._shelf = Shelf.over(source, Spool(outbox.folder, ""))
        self._trouble = Trouble("heritage")
        self._seen: dict[Path, tuple[int, str]] = {}
        """Files that held nothing for these queues: their size then, and the queues."""
        self._bare: set[Path] = set()
        """Files of the dead with nothing in them, seen once. They go at the next look: until its server looked too,
        such a file is the proof that its worker is dead."""

    async def run(self) -> None:
        """Look again and again. Never returns."""
        while True:
            await self._link.up.wait()
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - whatever it was, the files are still there the next time
                self._trouble.met(error)
            else:
                self._trouble.over()
            await rest(self._clock, LOOK_SECONDS)

    async def _look(self) -> None:
        paths = await asyncio.to_thread(self._candidates)
        self._bare.intersection_update(paths)
        for path in paths:
            file = await asyncio.to_thread(OutboxFile.adopt, path)
            if file is None:
                continue
            empty = False
            try:
                if _size(path) or path in self._bare:
                    empty = await self._settle(file)
                else:
                    self._bare.add(path)
            finally:
                if empty:  # while it is locked: nobody else looks at what lies beside it
                    await asyncio.to_thread(Spool(self._outbox.folder, path.stem).clear)
                await asyncio.to_thread(partial(file.close, remove=empty))

    def _candidates(self) -> list[Path]:
        """Return files that may hold something for these queues."""
        found: list[Path] = []
        for path in paths_of(self._outbox.folder):
            known = self._seen.get(path)
            if path != self._outbox.path and (known is None or known != (_size(path), self._link.queues)):
                found.append(path)
        return found

    async def _settle(self, file: OutboxFile) -> bool:
        """Deliver what is for these queues; say whether nothing is left in the file."""
        content = await asyncio.to_thread(file.read)
        ours = [one for one in content.open if one.queues == self._link.queues]
        if ours:
            log.info("outbox.adopted", worker=ours[0].worker, results=len(ours))
        for start in range(0, len(ours), MAX_REPORTS):
            await self._deliver(file, ours[start : start + MAX_REPORTS])
        left = len(content.open) - len(ours)
        if left or content.strange:
            self._leave(file, content, left)
        elif content.torn:
            aside = await asyncio.to_thread(file.put_aside)
            log.warning("outbox.damaged", file=str(aside), lines=content.torn, action=_DAMAGED)
            return False
        return not (left or content.strange)

    def _leave(self, file: OutboxFile, content: Content, left: int) -> None:
        facts = {"file": str(file.path), "results": left, "not_understood": content.strange}
        log.debug("outbox.left", **facts, action="a worker of their server, or of a newer version, delivers them")
        self._seen[file.path] = (_size(file.path), self._link.queues)

    async def _deliver(self, file: OutboxFile, batch: Sequence[Kept]) -> None:
        try:
            answers = await self._say(batch[0].worker, [one.report for one in batch])
        except (InvalidInput, LimitExceeded) as error:
            await self._deliver_apart(file, batch, error)
            return
        await asyncio.to_thread(self._note, file, list(zip(batch, answers, strict=True)))

    async def _deliver_apart(
        self, file: OutboxFile, batch: Sequence[Kept], error: InvalidInput | LimitExceeded
    ) -> None:
        """Find the one that cannot be taken, and say instead of it that there is a result which cannot be stored."""
        if len(batch) > 1:
            for one in batch:
                await self._deliver(file, [one])
            return
        kept = batch[0]
        substitute = dataclasses.replace(kept, report=in_its_place(kept.report, error))
        try:
            answers = await self._say(kept.worker, [substitute.report])
        except (InvalidInput, LimitExceeded) as again:
            facts = {"execution": kept.report.execution, "task": kept.report.address, "reason": why(again)}
            log.warning("worker.result_undeliverable", **facts, action="kept as evidence: `perdure doctor EXECUTION`")
            await asyncio.to_thread(keep_evidence, self._outbox.folder, kept, again.code, self._clock.wall_ms())
            answers = [Answer.ACCEPTED]
        await asyncio.to_thread(self._note, file, [(substitute, answers[0])])

    async def _say(self, worker: str, reports: list[Report]) -> list[Answer]:
        if self._shelf is not None:
            await self._shelf.send(worker, reports)
        failpoints.hit("worker.bequest.send")
        answers = await self._source.report(worker, reports)
        failpoints.hit("worker.bequest.received")
        if len(answers) != len(reports):
            raise InternalError(f"{len(reports)} reports were sent and {len(answers)} answers came back")
        return answers

    def _note(self, file: OutboxFile, answered: Sequence[tuple[Kept, Answer]]) -> None:
        for kept, answer in answered:
            facts = {"execution": kept.report.execution, "task": kept.report.address, "answer": str(answer)}
            if answer in REFUSALS:
                log.warning("outbox.result_refused", **facts, action="kept as evidence: `perdure doctor EXECUTION`")
                keep_evidence(self._outbox.folder, kept, str(answer), self._clock.wall_ms())
            else:
                log.info("outbox.delivered", worker=kept.worker, **facts)
        file.append([mark_of(kept.key, answer) for kept, answer in answered], sync=False)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
