"""Run executions: claim what is ready, drive it, let go of it. One per process, on a loop of its own.

Owns the table of live runs. A parked run stays in a bounded cache: claimed again under an unbroken fence it only gets
the new events; otherwise it is run again from its log.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio

from perdure.agent.loop import agent_loop
from perdure.agent.spec import AgentSpec, spec_from_json, tightened
from perdure.core import codec
from perdure.core.delivery import Delivery
from perdure.core.events import Event
from perdure.core.ids import new_id
from perdure.core.notices import Notice, is_notice, notice_from_json
from perdure.core.ports import Clock, Embedder, Random
from perdure.core.states import Reason
from perdure.engine.claim import Claim, Claimed, claim
from perdure.engine.keys import DEFAULT_COMPANY
from perdure.engine.query import asks_no_more, events_of
from perdure.engine.sweep import Drop, Renew, drop, renew
from perdure.errors import LeaseLost, PerdureError, StoreFailed, UserError
from perdure.flow.context import Failed
from perdure.flow.driver import Outcome, Run
from perdure.flow.journal import whole_log
from perdure.flow.runs import Live, Runs
from perdure.log import get_log
from perdure.models.port import Models
from perdure.rooms.notice import notice_loop
from perdure.rooms.spec import WakeSpec, is_wake, wake_of, wake_spec
from perdure.server.bridge import Bridge
from perdure.server.elsewhere import EXECUTOR
from perdure.server.hub import Hub
from perdure.server.journal import DirectJournal, RoomJournal, patiently
from perdure.server.leases import HeldModels, Leases
from perdure.server.live import LiveModels, LiveTexts
from perdure.server.room_gate import Gate, GatedModels
from perdure.server.wakes import abandon, to_be_abandoned, wake_function
from perdure.store.protocol import Reads
from perdure.store.tx import Note

log = get_log(__name__)

POLL_SECONDS = 5.0
"""How often to look for what other processes made ready."""
READY = (("ready", ""),)
"""What a claim waits for: executions that servers run, in no lane of a durable function."""
BATCH = 64
"""Most executions claimed at once."""
_POISON = (ValueError, LookupError, TypeError, UserError)
"""What an undecodable log or definition raises: trying again would not change it."""


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
        self._bridge = bridge
        self._hub = hub
        self._models = models
        self._clock = clock
        self._random = random
        self._options = options
        self._idle = idle
        self._wake = asyncio.Event()
        self._last_company = DEFAULT_COMPANY
        """Whose execution it was given last."""
        self._leases = Leases(clock, options.lease_ms)
        self.live = LiveTexts(hub)  # what models say that it asks now
        self._runs = Runs(options.cache)
        """Owner: `_drive`. What the kept ones have seen is read by the writer's thread during a claim."""
        self._specs: OrderedDict[tuple[str, str], AgentSpec | WakeSpec | Notice] = OrderedDict()
        self._drives: set[asyncio.Task[None]] = set()
        self._opening: set[str] = set()
        """Claimed, and not yet driven."""
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the first error of a drive that is nobody's run's: it ends the executor."""
        self._unknown: set[str] = set()
        """Owned by us in the store and not here, at the last renewal: a claim whose answer was lost."""

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._renew_forever)
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
        self._wake.set()  # there is room again
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
        except Exception:
            log.exception("execution.let_fall", execution=execution, action="it is taken up again when its lease ends")
        finally:
            self._leases.end(execution, claimed.fence)

    async def _drive_hearing(self, claimed: Claimed, journal: DirectJournal, ear: _Ear, since_ms: int) -> Outcome:
        execution = claimed.ref.execution
        self._opening.add(execution)
        try:
            live, events = await patiently(self._clock, partial(self._open, claimed, journal))
        except _POISON as error:
            log.exception("execution.poison", execution=execution)
            with contextlib.suppress(LeaseLost):
                await journal.halt("stick", Reason.POISON, f"its log cannot be read: {error}")
            return "halted"
        finally:
            self._opening.discard(execution)
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
        execution = claimed.ref.execution
        events = events_of(claimed.events)
        if (kept := await self._runs.take(execution, claimed.fence)) is not None:
            return kept, events
        events = await whole_log(journal, events, claimed.last_seq)
        spec = await self._spec(claimed.company, claimed.definition)
        first = events[0].data["input"]
        cancelled = partial(_cancelled, self._bridge, self._clock, claimed)
        models = HeldModels(self._models(claimed.company), self._leases, execution, cancelled)
        told = LiveModels(models, self.live, execution, partial(self._leases.fence, execution))
        if isinstance(spec, Notice):
            return _saying(spec, claimed, self._clock, self._new_id), events
        if isinstance(spec, WakeSpec):
            gate = Gate(self._bridge, self._leases, wake_of(execution, claimed.company, first), self._new_id)
            gated = replace(told, models=replace(models, models=GatedModels(models.models, gate)))
            function = wake_function(spec, gate, gated, self._clock, self._options.embedder)
            run = Run(execution, function, self._clock, self._new_id)
            return Live(run, claimed.fence, spec.active_ms, gate.wake.room, to_be_abandoned(spec, events)), events
        function = partial(agent_loop, spec=spec, first=first, models=told, clock=self._clock)
        return Live(Run(execution, function, self._clock, self._new_id), claimed.fence, spec.limits.active_ms), events

    async def _spec(self, company: str, digest: str) -> AgentSpec | WakeSpec | Notice:
        key = (company, digest)
        spec = self._specs.get(key)
        if spec is None:

            def stored(reads: Reads) -> str:
                row = reads.row("definition", company=company, digest=digest)
                if row is None:
                    raise ValueError(f"definition {digest} is missing")
                return row["spec"]

            found = codec.decode(await self._bridge.read(stored))
            spec = self._specs[key] = _definition(found, self._options.delivery_floor)
            if len(self._specs) > self._options.cache:
                self._specs.popitem(last=False)
        return spec

    async def _renew_forever(self) -> None:
        """Prolong what is owned, and tell the runs whose lease was lost to stop."""
        while True:
            await self._clock.sleep(self._options.lease_ms / 3000)
            asked_ms = self._clock.monotonic_ms()
            held = dict(self._runs.driven)
            if not held and not self._unknown and not self._opening:
                self._leases.renewed(asked_ms, {})
                continue
            try:
                fences = await self._bridge.run(renew, Renew(self.holder, self._options.lease_ms))
            except PerdureError as error:
                log.warning("executor.renew_failed", code=error.code, action="will try again")
                fences = None
            if fences is not None:
                self._leases.renewed(asked_ms, fences)
                await self._compare(held, fences)
            elif self._leases.quiet_ms > self._options.lease_ms * 0.8:
                for live in held.values():
                    live.run.interrupt(LeaseLost("the lease could not be renewed in time"))

    async def _compare(self, held: dict[str, Live], fences: dict[str, int]) -> None:
        for execution, live in held.items():
            if fences.get(execution) != live.fence and self._runs.driven.get(execution) is live:
                live.run.interrupt(LeaseLost(f"execution {execution} is owned by somebody else"))
        strangers = fences.keys() - held.keys() - self._runs.driven.keys() - self._opening
        lost = strangers & self._unknown
        self._unknown = strangers - lost
        if lost:
            try:
                await self._bridge.run(drop, Drop(self.holder, tuple(sorted(lost))))
            except PerdureError as error:
                log.warning("executor.drop_failed", code=error.code, action="will try again")
                self._unknown |= lost

    async def _close_all(self) -> None:
        with anyio.CancelScope(shield=True):
            for drive in self._drives:
                drive.cancel()
            await asyncio.gather(*self._drives, return_exceptions=True)
            await self._runs.close()

    def _new_id(self, prefix: str) -> str:
        return new_id(prefix, self._clock, self._random)


def _saying(spec: Notice, claimed: Claimed, clock: Clock, new_id: Callable[[str], str]) -> Live:
    """Return the run of what a schedule says in a room."""
    function = partial(notice_loop, notice=spec, company=claimed.company)
    return Live(Run(claimed.ref.execution, function, clock, new_id), claimed.fence, room=spec.room)


async def _cancelled(bridge: Bridge, clock: Clock, claimed: Claimed) -> bool:
    look = partial(asks_no_more, company=claimed.company, execution=claimed.ref.execution)
    return await patiently(clock, partial(bridge.read, look))


def _definition(found: Any, floor: Delivery) -> AgentSpec | WakeSpec | Notice:
    """Read a definition under this server's policy. What was scheduled before keeps the mode it was scheduled with."""
    if is_notice(found):
        return notice_from_json(found)
    if is_wake(found):
        wake = wake_spec(found)
        return replace(wake, agent=_under(wake.agent, floor))
    return _under(spec_from_json(found), floor)


def _under(spec: AgentSpec, floor: Delivery) -> AgentSpec:
    return replace(spec, tools=tuple(tightened(tool, floor) for tool in spec.tools))


async def _end_in_time(live: Live, limit_ms: int, active_ms: int, clock: Clock) -> None:
    """Have the execution fail once it was owned for longer than its limit, waits excluded."""
    await clock.sleep(max(limit_ms - active_ms, 0) / 1000)
    message = f"it was active for longer than limits.active ({limit_ms / 1000:g} s)."
    live.run.interrupt(Failed("limit_exceeded", message))
