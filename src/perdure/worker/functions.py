"""Run durable functions: claim what is ready, drive it, let go of it. Slots of its own, beside those for tools.

Durable code runs on a loop of its own, and its leases are kept on the caller's: whatever that code does, they are
renewed. Start is `run`; `stop` means: take no more, let what runs park or end, hand back the rest, then leave.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from perdure import failpoints
from perdure.core.ids import new_id
from perdure.core.ports import Clock, Random
from perdure.core.work import LEASE_MS, Answer, FunctionLane, WorkerInfo
from perdure.errors import InvalidInput
from perdure.flow.durable import DurableDefinition
from perdure.log import get_log
from perdure.system import SystemClock, SystemRandom
from perdure.wire.api import TaskSource
from perdure.worker.claimer import Claimer, Source
from perdure.worker.code_loop import CodeLoop, ThreadedCodeLoop
from perdure.worker.heirs import Heirs
from perdure.worker.link import Link, Trouble
from perdure.worker.outbox import Outbox
from perdure.worker.pace import first_of, rest, within
from perdure.worker.shutdown import SETTLE_SECONDS
from perdure.worker.stable import Lease, Stable

log = get_log(__name__)

FUNCTION_SLOTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions:
    """How one worker runs durable functions."""

    slots: int = FUNCTION_SLOTS
    """Executions driven at a time. Those that wait are parked, and take none."""
    cache: int = 1_000
    """Parked coroutines kept in memory."""
    name: str = ""
    """For people; default: host and process."""
    lease_ms: int = LEASE_MS
    drain_seconds: float = 10.0
    """How long what runs may go on after the first `stop`."""
    id_prefix: str = ""
    """Of the worker's id, which is random per boot."""
    outbox: Path | None = None
    """The folder of this user's workers: its own file there proves its death, and what the dead left is delivered.
    None: its death is only ever suspected. A source in the worker's own process needs none."""


class FunctionWorker:
    """Runs the durable functions it is given. `run` once; `stop` from any thread."""

    def __init__(
        self,
        open_source: Callable[[], Source],
        alive: TaskSource,
        definitions: Sequence[DurableDefinition],
        options: FunctionOptions | None = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        code_loop: Callable[[], CodeLoop] = ThreadedCodeLoop,
    ) -> None:
        """`open_source` is called once for each loop that asks it; `alive` holds the liveness connection; `code_loop`
        makes the loop that durable code runs on.

        Raises `InvalidInput` (`bad_worker`) for nothing to run, no slots, or two different functions of one name.
        """
        self._options = options or FunctionOptions()
        self._open_source = open_source
        self._code_loop = code_loop
        self._clock: Clock = clock or SystemClock()
        self._random: Random = random or SystemRandom()
        self._definitions = _by_lane(definitions)
        if self._options.slots < 1:
            raise InvalidInput(f"a worker has {self._options.slots} slots; expected at least one.", code="bad_worker")
        self.id = self._options.id_prefix + new_id("wrk", self._clock, self._random)
        self.info = _describe(self.id, tuple(self._definitions), self._options)
        self._link = Link(alive, self.info, self._clock, self._random)
        folder = self._options.outbox
        self._outbox = Outbox(folder, self.id, self._clock) if folder is not None else None
        """Stays empty: what steps gave is in their logs."""
        self._heirs = self._outbox and Heirs(alive, self._link, self._outbox, self._clock)
        self._home: asyncio.AbstractEventLoop | None = None
        """The loop of `run`: leases, liveness, stopping."""
        self._claimer: Claimer | None = None
        """Lives on the loop of durable code, once there is one."""
        self._due = asyncio.Event()
        """Set when leases are to be renewed before their time. Belongs to the home loop."""
        self._stopped = asyncio.Event()
        self._stopping = False
        self._drain_seconds = self._options.drain_seconds
        self.left_running = 0
        """Above 0, threads of bodies that could not be stopped keep the process."""

    async def connected(self) -> None:
        """Return once the source knows this worker."""
        await self._link.up.wait()

    async def run(self) -> None:
        """Work until `stop`. Returns when all is parked, ended or handed back."""
        self._home = asyncio.get_running_loop()
        loop = self._code_loop()
        loop.start()
        source = self._open_source()
        if self._outbox is not None:
            self._outbox.open()
            self.info = self._link.info = self._outbox.proving(self.info)
        try:
            claimer = self._claimer = await loop.join(self._make_claimer())
            claimer.stable.when_outside = self._renew_soon
            self._link.watch(self._changed)
            async with anyio.create_task_group() as side:
                side.start_soon(self._link.hold)
                if self._heirs is not None:
                    side.start_soon(self._heirs.run)
                side.start_soon(self._renew_forever, source, claimer.stable, loop.loop)
                work = asyncio.wrap_future(loop.submit(claimer.claim_forever(self._link.up.is_set)))
                await first_of(self._stopped.wait, lambda: asyncio.wait([work]))
                claimer.stop_soon()
                await work
                await loop.join(claimer.leave(self._drain_seconds))
                side.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await source.aclose()
                await self._end(loop)
            if self._outbox is not None:
                self._outbox.close()

    def stop(self, drain_seconds: float | None = None) -> None:
        """Ask it to stop: take no more, let runs park or end for `drain_seconds`, hand back the rest. From any thread.

        A second call cuts the time that is left, by default to nothing.
        """
        if self._home is None:
            self._stop(drain_seconds)
            return
        try:
            self._home.call_soon_threadsafe(self._stop, drain_seconds)
        except RuntimeError:
            return  # the loop is closed: it stopped long ago

    def _stop(self, drain_seconds: float | None) -> None:
        if drain_seconds is not None or self._stopping:
            self._drain_seconds = drain_seconds or 0.0
        if self._stopping and self._claimer is not None:
            self._claimer.hurry_soon()
        self._stopping = True
        self._stopped.set()

    async def _make_claimer(self) -> Claimer:
        """Make what lives on the loop of durable code, there."""
        return Claimer(self.id, self._open_source(), self._definitions, self._options, self._clock, self._random)

    async def _end(self, loop: CodeLoop) -> None:
        """End the loop of durable code, unless threads of its bodies keep it."""
        if self._claimer is not None:
            gone = asyncio.wrap_future(loop.submit(self._claimer.hang_up()))
            await first_of(lambda: asyncio.wait([gone]), lambda: self._clock.sleep(SETTLE_SECONDS))
        self.left_running = 0 if await loop.end(self._clock) else 1

    def _changed(self) -> None:
        self._due.set()
        if self._claimer is not None:
            self._claimer.look_soon()

    def _renew_soon(self) -> None:
        """From the loop of durable code: there is something that a renewal is to tell."""
        if self._home is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._home.call_soon_threadsafe(self._due.set)

    async def _renew_forever(self, source: Source, stable: Stable, there: asyncio.AbstractEventLoop) -> None:
        """Prolong what is owned, and tell the runs whose lease was lost to stop."""
        pause = self._options.lease_ms / 4000
        trouble = Trouble("renew")
        while True:
            self._due.clear()
            leases = stable.leases()
            answers = await self._renew(source, leases, trouble) if leases else []
            now_ms = self._clock.monotonic_ms()
            for lease, answer in zip(leases, answers or [None] * len(leases), strict=True):
                if answer is Answer.LEASE_LOST or not lease.fresh(now_ms):
                    there.call_soon_threadsafe(stable.lose, lease.held)
            await rest(self._clock, pause / 3 if answers is None else pause, self._due)

    async def _renew(self, source: Source, leases: list[Lease], trouble: Trouble) -> list[Answer] | None:
        """Return the answers, or None if there are none."""
        asked_ms = self._clock.monotonic_ms()
        held = [replace(lease.held, outside=lease.outside) for lease in leases]
        lease_ms = self._options.lease_ms
        try:
            failpoints.hit("worker.renew_executions.send")
            answers = await within(self._clock, lease_ms / 6000, lambda: source.renew(self.id, held, lease_ms))
            failpoints.hit("worker.renew_executions.received")
        except Exception as error:  # noqa: BLE001 - whatever it was, the leases still have to be kept
            trouble.met(error)
            return None
        trouble.over()
        for lease, answer in zip(leases, answers, strict=True):
            if answer is not Answer.LEASE_LOST:
                lease.until_ms = max(lease.until_ms, asked_ms + lease.lease_ms)
        return answers


def _by_lane(definitions: Sequence[DurableDefinition]) -> dict[FunctionLane, DurableDefinition]:
    lanes = {FunctionLane(one.name, one.build): one for one in definitions}
    clash = next(
        (one for one in definitions if lanes[FunctionLane(one.name, one.build)].function != one.function), None
    )
    if clash is not None:
        raise InvalidInput(
            f"two durable functions are called {clash.name!r} and are of one build: give one of them another name: "
            "`@durable(name=...)`.",
            code="bad_worker",
        )
    if not lanes:
        raise InvalidInput("nothing to run: no durable function was given.", code="bad_worker")
    return lanes


def _describe(worker: str, lanes: tuple[FunctionLane, ...], options: FunctionOptions) -> WorkerInfo:
    host, pid = platform.node(), os.getpid()
    name = options.name or f"{host}:{pid}"
    return WorkerInfo(worker=worker, name=name, slots=options.slots, pid=pid, host=host, functions=lanes)
