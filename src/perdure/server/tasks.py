"""The queues in-process: workers in this process take from here, and so do the HTTP routes of the others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from perdure.core.work import (
    Answer,
    Begin,
    Held,
    LeasedTask,
    LeaseRequest,
    Report,
    WorkerInfo,
)
from perdure.engine.begin import Beginning
from perdure.engine.begin import begin as begin_task
from perdure.engine.complete import Completion, complete
from perdure.engine.held import Beats, HandBack, beat, hand_back
from perdure.engine.lease import Lease, lease
from perdure.errors import PerdureError, UserError
from perdure.server.direct_blobs import DirectBlobs
from perdure.server.elsewhere import lane_topic
from perdure.server.hub import DRAINING, Topic
from perdure.server.silence import fell_silent
from perdure.store.tx import Note

if TYPE_CHECKING:
    from perdure.server.node import Node

POLL_SECONDS = 5.0
"""How often a waiting lease looks without a hint."""
SIGN_SECONDS = 5.0
"""Between signs of life on a liveness connection."""


class DirectTaskSource(DirectBlobs):
    """`TaskSource` of one company over a node."""

    def __init__(self, node: Node, company: str) -> None:
        DirectBlobs.__init__(self, node.bridge, company, node.parts.max_value_bytes)
        self._node = node
        self._bridge = node.bridge
        self._company = company

    async def lease(self, request: LeaseRequest, *, wait_seconds: float) -> list[LeasedTask]:
        """Reserve what is ready or, if nothing is, what this process makes ready while the wish stands."""
        try:
            return await self._wait_for_tasks(request, wait_seconds)
        except asyncio.CancelledError:
            self._bridge.tell(lease, Lease(self._company, replace(request, slots=0)), unchanged=True)
            raise

    async def _wait_for_tasks(self, request: LeaseRequest, wait_seconds: float) -> list[LeasedTask]:
        wants, clock, stir = self._topics(request), self._node.parts.clock, asyncio.Event()

        afar = self._afar(request)

        def hear(note: Note) -> None:
            topic = note.topic, note.key
            if note.after_ms or topic == DRAINING or topic in afar:  # all else is granted where it is announced
                stir.set()

        until_ms, stirred = clock.monotonic_ms() + wait_seconds * 1000, False
        with self._node.hub.listening((DRAINING, *wants, *afar), hear):
            while (left := (until_ms - clock.monotonic_ms()) / 1000) > 0 and not self._node.draining:
                wish = self._bridge.run(
                    lease, Lease(self._company, request), wants, unchanged=not stirred and self._idle(afar)
                )
                stirred = await _stirs(wish, stir, min(left, POLL_SECONDS))
                if wish.done():
                    return wish.result()
                wish.cancel()  # the next look takes its place, and is given again what this one was given meanwhile
            unchanged = not stirred and self._idle(afar)
        return await self._bridge.run(lease, Lease(self._company, request), unchanged=unchanged)

    def _idle(self, afar: frozenset[Topic]) -> bool:
        return self._node.elsewhere.no_tasks(afar)

    def _topics(self, request: LeaseRequest) -> tuple[Topic, ...]:
        queues = {lane.queue for lane in request.lanes}
        return ("tasks_all", self._company), *(("tasks", f"{self._company}/{queue}") for queue in sorted(queues))

    def _afar(self, request: LeaseRequest) -> frozenset[Topic]:
        """Return what says that another server made a task ready, or that a task's time has come."""
        return frozenset(lane_topic(self._company, lane) for lane in request.lanes)

    async def take(self, request: LeaseRequest) -> list[LeasedTask]:
        """Reserve what is ready now, without waiting."""
        return await self._bridge.run(lease, Lease(self._company, request))

    async def begin(self, begin: Begin) -> Answer:
        return await self._bridge.run(begin_task, Beginning(self._company, begin))

    async def report(self, worker: str, reports: Sequence[Report]) -> list[Answer]:
        """Give all reports to the writer at once, so that they share a commit; answer them one by one."""
        random = self._node.parts.random
        rows = [Completion(self._company, one, 0.0 if one.failure is None else random.uniform(0, 1)) for one in reports]
        said = [self._bridge.run(complete, row) for row in rows]
        results = await asyncio.gather(*said, return_exceptions=True)
        return [_answer(result) for result in results]

    async def beat(self, worker: str, held: Sequence[Held]) -> list[Answer]:
        return await self._bridge.run(beat, Beats(self._company, worker, tuple(held)))

    async def hand_back(self, worker: str, held: Sequence[Held]) -> list[Answer]:
        return await self._bridge.run(hand_back, HandBack(self._company, tuple(held)))

    async def alive(self, info: WorkerInfo) -> AsyncIterator[str]:
        name = f"{self._node.info().store}/{self._company}"
        try:
            with self._node.workers.connected(self._company, info):
                while True:
                    yield name
                    await self._node.parts.clock.sleep(SIGN_SECONDS)
        finally:
            if self._node.accepting:
                with (
                    anyio.CancelScope(shield=True),
                    contextlib.suppress(PerdureError),
                ):  # else its leases run their time
                    await fell_silent(self._bridge, self._node.parts.clock, self._company, info)


async def _stirs(wish: asyncio.Future[list[LeasedTask]], stir: asyncio.Event, seconds: float) -> bool:
    """Wait until the wish is granted, something stirs, or the time is over; say whether anything did."""

    def ring(_wish: object) -> None:
        stir.set()

    wish.add_done_callback(ring)
    try:
        await asyncio.wait_for(stir.wait(), seconds)
    except TimeoutError:
        return False
    finally:
        wish.remove_done_callback(ring)
        stir.clear()
    return True


def _answer(result: Answer | BaseException) -> Answer:
    """Return the answer. What cannot be recorded as it is contradicts, and touches no other report; what a store cannot
    take now must be said again, so its error is raised, and so is what names content that was never sent."""
    if isinstance(result, BaseException):
        if isinstance(result, UserError) and result.code != "blob_missing":
            return Answer.CONFLICT
        raise result
    return result
