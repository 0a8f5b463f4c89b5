"""Run durable functions: claim what is ready, drive it, let go of it. Slots of its own, beside those for tools.

Durable code runs on a loop of its own, and its leases are kept on the caller's: whatever that code does, they are
renewed. Start is `run`; `stop` means: take no more, let what runs park or end, hand back the rest, then leave.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import anyio

from perdure import failpoints
from perdure.core.functions import ClaimedExecution, ClaimRequest, Claims, HeldExecution
from perdure.core.ids import new_id
from perdure.core.ports import Clock, Random
from perdure.core.work import LEASE_MS, Answer, FunctionLane, WorkerInfo
from perdure.errors import InvalidInput
from perdure.flow.durable import DurableDefinition
from perdure.flow.journal import Journal
from perdure.log import get_log
from perdure.system import SystemClock, SystemRandom
from perdure.wire.api import FunctionSource, TaskSource
from perdure.worker.code_loop import CodeLoop, ThreadedCodeLoop
from perdure.worker.heirs import Heirs
from perdure.worker.link import Link, Trouble
from perdure.worker.outbox import Outbox
from perdure.worker.pace import Backoff, first_of, rest, within
from perdure.worker.shutdown import SETTLE_SECONDS
from perdure.worker.stable import Lease, Stable

log = get_log(__name__)

WAIT_SECONDS = 20.0
"""Of one long poll; at most a third of a lease, so that what comes last still has the rest of it."""
FUNCTION_SLOTS = 100
MOST_AT_ONCE = 64
"""Executions that one request asks for."""


class Source(FunctionSource, Protocol):
    """Where executions come from, with their journals."""

    def opened(self, worker: str, claimed: ClaimedExecution) -> Journal:
        """Return the journal of a claimed execution."""
        ...

    async def aclose(self) -> None: ...


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


@dataclass(frozen=True, slots=True)
class _Wish:
    """A request that is not answered yet. Asked again it is the same, so a lost reply loses no execution."""

    request: ClaimRequest
    asked_ms: int
    """By this process's clock, before it was first sent."""


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
        self._desk: _Desk | None = None
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
            desk = self._desk = await loop.join(self._make_desk())
            desk.stable.when_outside = self._renew_soon
            self._link.watch(self._changed)
            async with anyio.create_task_group() as side:
                side.start_soon(self._link.hold)
                if self._heirs is not None:
                    side.start_soon(self._heirs.run)
                side.start_soon(self._renew_forever, source, desk.stable, loop.loop)
                work = asyncio.wrap_future(loop.submit(desk.claim_forever(self._link.up.is_set)))
                await first_of(self._stopped.wait, lambda: asyncio.wait([work]))
                desk.stop_soon()
                await work
                await loop.join(desk.leave(self._drain_seconds))
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
        if self._stopping and self._desk is not None:
            self._desk.hurry_soon()
        self._stopping = True
        self._stopped.set()

    async def _make_desk(self) -> _Desk:
        """Make what lives on the loop of durable code, there."""
        return _Desk(self.id, self._open_source(), self._definitions, self._options, self._clock, self._random)

    async def _end(self, loop: CodeLoop) -> None:
        """End the loop of durable code, unless threads of its bodies keep it."""
        if self._desk is not None:
            gone = asyncio.wrap_future(loop.submit(self._desk.hang_up()))
            await first_of(lambda: asyncio.wait([gone]), lambda: self._clock.sleep(SETTLE_SECONDS))
        self.left_running = 0 if await loop.end(self._clock) else 1

    def _changed(self) -> None:
        self._due.set()
        if self._desk is not None:
            self._desk.look_soon()

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


class _Desk:
    """What lives on the loop of durable code: claiming, and the stable. `…_soon` from any thread."""

    def __init__(
        self,
        worker: str,
        source: Source,
        definitions: Mapping[FunctionLane, DurableDefinition],
        options: FunctionOptions,
        clock: Clock,
        random: Random,
    ) -> None:
        self._worker, self._source, self._options = worker, source, options
        self._lanes = tuple(definitions)
        self._clock, self._random = clock, random
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._hurry = asyncio.Event()
        self._stopping = False
        self._poll: anyio.CancelScope | None = None
        self._listening = False
        """The request under way asks for no executions, only for news."""
        self._wish: _Wish | None = None
        self._backoff = Backoff(random)
        self._trouble = Trouble("claim")
        self.stable = Stable(worker, source, definitions, options.cache, clock, random)
        self.stable.when_freed = self._freed

    def look_soon(self) -> None:
        """Look again whether to claim."""
        self._loop.call_soon_threadsafe(self._changed.set)

    def stop_soon(self) -> None:
        """Claim no more."""
        self._loop.call_soon_threadsafe(self._stop)

    def hurry_soon(self) -> None:
        """Wait no longer for what runs."""
        self._loop.call_soon_threadsafe(self._hurry.set)

    async def claim_forever(self, connected: Callable[[], bool]) -> None:
        """Claim while there is room, and listen for news of what is owned. Returns once it is stopped."""
        while not self._stopping:
            self._changed.clear()  # before looking: what changes during the look must be looked at again
            if not connected():
                await self._changed.wait()
                continue
            with anyio.CancelScope() as self._poll:
                await self._claim()
            self._poll = None

    async def leave(self, drain_seconds: float) -> None:
        """Let runs park or end for a time, and hand back the rest."""
        await self._settle_wish()
        await first_of(self.stable.idle, lambda: self._clock.sleep(drain_seconds), self._hurry.wait)
        left = await self.stable.close()
        if left:
            await self._bounded(lambda: self._source.release(self._worker, left))
        await self._source.aclose()

    async def hang_up(self) -> None:
        """Leave at once, without a word: what is held is taken for lost. Nothing is left to do after `leave`."""
        self._stop()
        await self.stable.close()
        await self._source.aclose()

    async def _claim(self) -> None:
        free = min(self._options.slots - self.stable.busy, MOST_AT_ONCE)
        asked_ms = self._clock.monotonic_ms()
        wish = self._wish or _Wish(self._request(max(free, 0)), asked_ms)
        self._listening = not wish.request.slots
        self._wish = None if self._listening else wish
        try:
            claims = await self._ask(wish.request, min(WAIT_SECONDS, self._options.lease_ms / 3000))
        except Exception as error:  # noqa: BLE001 - whatever it was, there may be executions the next time
            self._trouble.met(error)
            await rest(self._clock, self._backoff.pause(), self._changed)
            return
        self._wish = None
        self._trouble.over()
        self._backoff.reset()
        self.stable.hint(claims.news)
        for one in claims.executions:
            self.stable.take(one, wish.asked_ms)

    async def _ask(self, request: ClaimRequest, wait_seconds: float) -> Claims:
        failpoints.hit("worker.claim_executions.send")
        claims = await self._source.claim(request, wait_seconds=wait_seconds)
        failpoints.hit("worker.claim_executions.received")
        return claims

    def _request(self, free: int) -> ClaimRequest:
        return ClaimRequest(
            worker=self._worker,
            nonce=self._random.token(16).hex(),
            lanes=self._lanes,
            slots=free,
            lease_ms=self._options.lease_ms,
            known=self.stable.known(),
            watch=self.stable.watched(),
        )

    def _freed(self) -> None:
        self._changed.set()
        if self._listening and self._poll is not None:
            self._poll.cancel()

    def _stop(self) -> None:
        self._stopping = True
        self._changed.set()
        if self._poll is not None:
            self._poll.cancel()

    async def _settle_wish(self) -> None:
        """Ask once more for the answer to a poll that stopping cut off, and return what it brought."""
        wish, self._wish = self._wish, None
        if wish is None:
            return

        async def settle() -> None:
            claims = await self._ask(replace(wish.request, slots=0), 0)
            held = [HeldExecution(one.execution, one.fence) for one in claims.executions]
            if held:
                await self._source.release(self._worker, held)

        await self._bounded(settle)

    async def _bounded(self, what: Callable[[], Awaitable[object]]) -> None:
        """Do a last courtesy: leases that nobody keeps run out."""

        async def tried() -> None:
            try:
                await what()
            except Exception as error:  # noqa: BLE001 - as above
                self._trouble.met(error)

        await first_of(tried, lambda: self._clock.sleep(SETTLE_SECONDS))


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
