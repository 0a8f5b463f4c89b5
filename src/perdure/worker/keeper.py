"""Keep the leases of everything this worker holds: one heartbeat for all of it, three times in a lease's life.

Runs on the worker's loop, which no tool can block. Decides nothing: it tells each grip what the server answered.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from perdure import failpoints
from perdure.core.ports import Clock, Random
from perdure.core.work import ORPHAN_LEASE_MS, Answer, Held
from perdure.wire.api import TaskSource
from perdure.worker.grip import Grip, Phase
from perdure.worker.link import Link, Trouble
from perdure.worker.pace import Backoff, rest, within


class Keeper:
    """The owner of the table of held tasks."""

    def __init__(self, source: TaskSource, worker: str, link: Link, clock: Clock, random: Random) -> None:
        self._source, self._worker, self._link, self._clock = source, worker, link, clock
        link.watch(self.poke)
        self._held: dict[Held, Grip] = {}
        """From the lease until the report is answered."""
        self._wake = asyncio.Event()
        self._looks_ms: float = 0
        """When `run` will look again by itself."""
        self._backoff = Backoff(random)
        self._trouble = Trouble("heartbeat")
        self._not_before_ms = 0
        self._beaten_ms = 0

    @property
    def grips(self) -> list[Grip]:
        """All that is held now."""
        return list(self._held.values())

    def add(self, grip: Grip) -> None:
        """Begin to keep a lease."""
        self._held[grip.held] = grip
        if grip.due_ms < self._looks_ms:
            self._wake.set()

    def drop(self, grip: Grip) -> None:
        """Let a lease be: its task was reported, went back, or is somebody else's."""
        if self._held.get(grip.held) is grip:
            del self._held[grip.held]

    def poke(self) -> None:
        """Look again at what is due."""
        self._wake.set()

    async def freshen(self, grip: Grip) -> None:
        """Return once enough of the lease is left to start something under it."""
        while not grip.fresh:
            grip.prolonged.clear()
            grip.due_ms = self._clock.monotonic_ms()
            self._wake.set()
            await grip.prolonged.wait()

    async def run(self) -> None:
        """Beat when it is due. Never returns."""
        while True:
            self._wake.clear()  # before looking: what comes in during a beat must be seen after it
            pause_ms = self._pause_ms()
            self._looks_ms = math.inf if pause_ms is None else self._clock.monotonic_ms() + pause_ms
            if pause_ms is None:
                await self._wake.wait()
            elif pause_ms > 0:
                await rest(self._clock, pause_ms / 1000, self._wake)
            else:
                await self._beat()

    def _pause_ms(self) -> int | None:
        if not self._held:
            return None
        due_ms = min(grip.wanted_ms for grip in self._held.values())
        if self._link.shaken:
            due_ms = min(due_ms, self._beaten_ms + ORPHAN_LEASE_MS // 3)
        return max(due_ms, self._not_before_ms) - self._clock.monotonic_ms()

    async def _beat(self) -> None:
        grips = self.grips
        held = [grip.tell() for grip in grips]
        asked_ms = self._beaten_ms = self._clock.monotonic_ms()
        limit = min(grip.task.lease_ms for grip in grips) / 6000
        try:
            # One that hangs must leave time for more: a lease has room for four tries.
            answers = await within(self._clock, limit, lambda: self._send(held))
        except Exception as error:  # noqa: BLE001 - whatever it was, the leases still have to be kept
            for grip, said in zip(grips, held, strict=True):
                grip.untold(said)
            self._trouble.met(error)
            self._not_before_ms = self._clock.monotonic_ms() + round(min(self._backoff.pause(), limit) * 1000)
            return
        self._trouble.over()
        self._backoff.reset()
        for grip, answer in zip(grips, answers, strict=True):
            _tell(grip, answer, asked_ms)
            if grip.lost:
                self.drop(grip)

    async def _send(self, held: Sequence[Held]) -> list[Answer]:
        failpoints.hit("worker.beat.send")
        answers = await self._source.beat(self._worker, held)
        failpoints.hit("worker.beat.received")
        return answers


def _tell(grip: Grip, answer: Answer, asked_ms: int) -> None:
    match answer:
        case Answer.ACCEPTED | Answer.ALREADY_ACCEPTED:
            grip.prolong(asked_ms)
        case Answer.CANCEL:
            grip.prolong(asked_ms)
            grip.refuse()
        case Answer.LEASE_LOST | Answer.CONFLICT:
            grip.lose()
            if grip.phase is Phase.OVER:
                grip.due_ms = asked_ms + grip.task.lease_ms // 3
