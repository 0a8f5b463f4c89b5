"""Run executions: claim what is ready, drive it, let go of it. One per process, on a loop of its own.

Owns the leases and the live runs of what it holds. `opener` makes runs, `renewal` prolongs leases, `flow.runs` keeps
what parked: claimed again under an unbroken fence, it only gets the new events.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import anyio

from perdure.core.delivery import Delivery
from perdure.core.events import Event
from perdure.core.ids import new_id
from perdure.core.ports import Clock, Embedder, Random
from perdure.core.states import Reason
from perdure.engine.claim import Claim, Claimed, claim
from perdure.engine.keys import DEFAULT_COMPANY
from perdure.engine.query import events_of
from perdure.errors import LeaseLost, PerdureError, StoreFailed
from perdure.flow.context import Failed
from perdure.flow.driver import Outcome, Run
from perdure.flow.journal import whole_log
from perdure.flow.runs import UNREADABLE, Live, Runs
from perdure.log import get_log
from perdure.models.port import Models
from perdure.rooms.spec import wake_of
from perdure.server.bridge import Bridge
from perdure.server.definitions import Definitions
from perdure.server.elsewhere import EXECUTOR
from perdure.server.hub import Hub
from perdure.server.journal import DirectJournal, RoomJournal, patiently
from perdure.server.leases import Leases
from perdure.server.live import LiveTexts
from perdure.server.opener import Opener
from perdure.server.renewal import Renewal
from perdure.server.wakes import abandon
from perdure.store.tx import Note

log = get_log(__name__)

POLL_SECONDS = 5.0
"""How often to look for what other processes made ready."""
READY = (("ready", ""),)
"""What a claim waits for: executions that servers run, in no lane of a durable function."""
BATCH = 64
"""Most executions claimed at once."""


@dataclass(frozen=True, slots=True)
class ExecutorOptions:
    """Bounds of an executor, and what is the same for all that it drives."""

    capacity: int = 500
    """Executions owned at a time."""
    cache: int = 1_000
    """Parked runs kept in memory."""
    lease_ms: int = 30_000
    delivery_floor: Delivery = Delivery.AT_LEAST_ONCE
    """A policy for the tools of all agents: see `core.delivery.tighten`."""
    embedder: Embedder | None = None
    """By what wakes find passages that mean the same; None: by words alone."""


class _Ear:
    """Hears what is appended to one execution, from before its log is read."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._heard = 0

    def listen_for(self, run: Run) -> None:
        """Pass on what was heard so far, and from now on everything."""
        self._run = run
        run.hint((), self._heard)

    def __call__(self, note: Note) -> None:
        self._heard = note.rows[-1]["seq"]
        if self._run is not None:
            last = self._run.replay.last_seq
            wanted = () if self._run.writing else events_of([row for row in note.rows if row["seq"] > last])
            self._run.hint(wanted, self._heard)


class Executor:
    """Claims and drives. Start with `run`, which ends when cancelled; then nothing is owned any more."""

    def __init__(
        self,
        bridge: Bridge,
        hub: Hub,
        models: Callable[[str], Models],
        clock: Clock,
        random: Random,
        options: ExecutorOptions,
        idle: Callable[[], bool] = lambda: False,
    ) -> None:
        """`models` gives those of a company. `idle` says whether other processes have made nothing ready: then what
        stood and found nothing stands on."""
        self.holder = new_id("srv", clock, random)
        self.texts = LiveTexts(hub)
        """What models say that it asks now."""
        self._bridge = bridge
        self._hub = hub
        self._clock = clock
        self._options = options
        self._idle = idle
        self._wake = asyncio.Event()
        """Set when there is room again."""
        self._last_company = DEFAULT_COMPANY
        """Whose execution it was given last."""
        self._leases = Leases(clock, options.lease_ms)
        """From a claim on until `_drive` has let go. Owner: `_drive`; `_renewal` prolongs them."""
        self._runs = Runs(options.cache)
        """Owner: `_drive`. What the kept ones have seen is read by the writer's thread during a claim."""
        self._renewal = Renewal(bridge, clock, self.holder, options.lease_ms, self._leases, self._runs)
        self._opener = Opener(
            bridge=bridge,
            definitions=Definitions(bridge, options.delivery_floor, options.cache),
            models=models,
            leases=self._leases,
            texts=self.texts,
            clock=clock,
            new_id=partial(new_id, clock=clock, random=random),
            embedder=options.embedder,
        )
        self._drives: set[asyncio.Task[None]] = set()
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the first error of a drive that is nobody's run's: it ends the executor."""

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._renewal.run)
                group.start_soon(self._listen_afar)
                group.start_soon(self._claim_forever)
                await self._broken
        finally:
            self._bridge.tell(claim, self._wish(0))
            await self._close_all()

    @property
    def owned(self) -> int:
        """How many executions it drives now."""
        return len(self._runs.driven)

    @property
    def cached(self) -> int:
        """How many parked runs it keeps."""
        return self._runs.kept

    async def _claim_forever(self) -> None:
        while True:
            self._wake.clear()
            room, asked_ms = min(BATCH, self._options.capacity - len(self._drives)), self._clock.monotonic_ms()
            try:
                claimed = await self._claim(room) if room > 0 else []
            except StoreFailed:
                raise
            except PerdureError as error:
                log.warning("executor.claim_failed", code=error.code, action="will try again")
                room, claimed = 0, []
            for one in claimed:
                self._spawn(one, asked_ms)
            if room <= 0:
                with anyio.move_on_after(POLL_SECONDS):
                    await self._wake.wait()

    async def _claim(self, room: int) -> list[Claimed]:
        """Claim what is ready or, if nothing is, what this process makes ready in the next seconds.

        It stands for a third of a lease at most: what is granted is known to be held only from when it was asked for.
        """
        wish = self._bridge.run(claim, self._wish(room), READY, unchanged=self._idle())
        try:
            if not (await asyncio.wait((wish,), timeout=min(POLL_SECONDS, self._options.lease_ms / 3000)))[0]:
                # In its place; what it was given meanwhile is not lost.
                self._bridge.tell(claim, self._wish(0), unchanged=self._idle())
            return await wish
        finally:
            wish.cancel()

    async def _listen_afar(self) -> None:
        """Ask again at once for what another server made ready: no wish of ours stands there."""
        with self._hub.listening([EXECUTOR], lambda _note: self._bridge.tell(claim, self._wish(0))):
            await asyncio.Event().wait()

    def _wish(self, room: int) -> Claim:
        return Claim(self.holder, room, self._options.lease_ms, self._runs.seen, self._last_company)

    def _spawn(self, claimed: Claimed, asked_ms: int) -> None:
        """Drive it in a task of its own: a task group would cost a fifth of a step's time."""
        self._last_company = claimed.company
        task = asyncio.get_running_loop().create_task(self._drive(claimed, asked_ms), name=claimed.ref.execution)
        self._drives.add(task)
        task.add_done_callback(self._drove)

    def _drove(self, task: asyncio.Task[None]) -> None:
        self._drives.discard(task)
        self._wake.set()
        if not task.cancelled() and (error := task.exception()) is not None and not self._broken.done():
            self._broken.set_exception(error)

    async def _drive(self, claimed: Claimed, asked_ms: int) -> None:
        """Take one execution as far as it goes. Whatever goes wrong with it goes wrong with it alone."""
        execution, since_ms = claimed.ref.execution, self._clock.monotonic_ms()
        self._leases.begin(execution, claimed.fence, asked_ms)
        journal = DirectJournal(self._bridge, self._clock, claimed.ref, claimed.fence)
        try:
            with self._hub.listening([("events", execution)], ear := _Ear()):
                while await self._drive_hearing(claimed, journal, ear, since_ms) == "overtaken":
                    claimed = replace(claimed, events=())  # what came first is read with all the rest
        except StoreFailed:
            raise
        except LeaseLost:
            log.info("execution.lost", execution=execution, fence=claimed.fence)
        except Exception:
            log.exception("execution.let_fall", execution=execution, action="it is taken up again when its lease ends")
        finally:
            self._leases.end(execution, claimed.fence)

    async def _drive_hearing(self, claimed: Claimed, journal: DirectJournal, ear: _Ear, since_ms: int) -> Outcome:
        execution = claimed.ref.execution
        try:
            live, events = await patiently(self._clock, partial(self._open, claimed, journal))
        except UNREADABLE as error:
            log.exception("execution.poison", execution=execution)
            with contextlib.suppress(LeaseLost):
                await journal.halt("stick", Reason.POISON, f"its log cannot be read: {error}")
            return "halted"
        room = RoomJournal(self._bridge, self._clock, claimed, live.room) if live.room else None
        if room is not None and live.abandoned:
            await live.run.close()
            return await abandon(wake_of(execution, claimed.company, events[0].data["input"]), room, events)
        live.run.spent_ms = self._clock.monotonic_ms() - since_ms  # before it was overtaken
        limit = self._limited(live, claimed.active_ms + live.run.spent_ms)
        try:
            ear.listen_for(live.run)
            outcome = await self._runs.drive(live, room or journal, events, None if room else journal)
        finally:
            if limit is not None:
                limit.cancel()
        log.debug("execution.let_go", execution=execution, outcome=outcome)
        return outcome

    def _limited(self, live: Live, active_ms: int) -> asyncio.Task[None] | None:
        if live.active_limit_ms is None:
            return None
        ending = _end_in_time(live, live.active_limit_ms, active_ms, self._clock)
        return asyncio.get_running_loop().create_task(ending, name=f"limit {live.run.execution}")

    async def _open(self, claimed: Claimed, journal: DirectJournal) -> tuple[Live, list[Event]]:
        """Return a live run and the events it has not seen: the cached one, or a new one and the whole log."""
        events = events_of(claimed.events)
        if (kept := await self._runs.take(claimed.ref.execution, claimed.fence)) is not None:
            return kept, events
        events = await whole_log(journal, events, claimed.last_seq)
        return await self._opener.open(claimed, events), events

    async def _close_all(self) -> None:
        with anyio.CancelScope(shield=True):
            for drive in self._drives:
                drive.cancel()
            await asyncio.gather(*self._drives, return_exceptions=True)
            await self._runs.close()


async def _end_in_time(live: Live, limit_ms: int, active_ms: int, clock: Clock) -> None:
    """Have the execution fail once it was owned for longer than its limit, waits excluded."""
    await clock.sleep(max(limit_ms - active_ms, 0) / 1000)
    message = f"it was active for longer than limits.active ({limit_ms / 1000:g} s)."
    live.run.interrupt(Failed("limit_exceeded", message))
