"""The live runs of one worker: drive what it owns, keep what has parked, end what it lost. All on one loop.

A parked run stays in a bounded cache: claimed again under an unbroken fence it only gets the new events; otherwise it
is run again from its log.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from perdure.core.events import Event
from perdure.core.functions import ClaimedExecution, HeldExecution
from perdure.core.ids import new_id
from perdure.core.ports import Clock, Random
from perdure.core.states import Reason
from perdure.core.tokens import Issuer
from perdure.core.work import FunctionLane
from perdure.errors import LeaseLost
from perdure.flow.context import Context
from perdure.flow.driver import Function, Run
from perdure.flow.durable import DurableDefinition, run_durable
from perdure.flow.journal import Journal, whole_log
from perdure.flow.large import Large
from perdure.flow.runs import UNREADABLE, Live, Runs
from perdure.log import get_log
from perdure.worker.large import LargeValues

log = get_log(__name__)


class Journals(Protocol):
    """Where the journals of claimed executions come from."""

    def opened(self, worker: str, claimed: ClaimedExecution) -> Journal:
        """Return the journal of a claimed execution."""
        ...


class Lease:
    """A worker's hold on one execution, counted on its own clock from before it was asked for."""

    def __init__(self, claimed: ClaimedExecution, asked_ms: int) -> None:
        self.held = HeldExecution(claimed.execution, claimed.fence)
        self.lease_ms = claimed.lease_ms
        self.until_ms = asked_ms + claimed.lease_ms
        """When it surely has not ended yet. Written by whoever renews it."""
        self.heard = claimed.last_seq
        """The newest `seq` known to exist. Belongs to the loop of durable code."""
        self.outside = ""
        """Where its code waits for the world outside a step. Written there, told by whoever renews it."""

    def fresh(self, now_ms: int) -> bool:
        """Whether enough of it is left to start something under it."""
        return now_ms < self.until_ms - self.lease_ms // 6


class Stable:
    """Drives executions. Everything but `leases` belongs to the loop that durable code runs on."""

    def __init__(
        self,
        worker: str,
        journals: Journals,
        definitions: Mapping[FunctionLane, DurableDefinition],
        cache: int,
        clock: Clock,
        random: Random,
    ) -> None:
        self._worker = worker
        self._journals = journals
        self._definitions = definitions
        self._clock = clock
        self._random = random
        self._large = LargeValues.over(journals, clock)
        self._lock = threading.Lock()
        """Guards `_leases`, which another loop renews."""
        self._leases: dict[str, Lease] = {}
        """From the claim until it is let go of."""
        self._runs = Runs(cache)
        self._drives: dict[asyncio.Task[None], Lease] = {}
        self.when_freed: Callable[[], None] = lambda: None
        """Called whenever one is let go of."""
        self.when_outside: Callable[[], None] = lambda: None
        """Called when code is found to wait outside a step: whoever renews leases tells the server."""

    @property
    def busy(self) -> int:
        """How many executions are driven now."""
        return len(self._drives)

    @property
    def cached(self) -> int:
        """How many parked runs it keeps."""
        return self._runs.kept

    def leases(self) -> list[Lease]:
        """Return what is held. From any thread."""
        with self._lock:
            return list(self._leases.values())

    def known(self) -> dict[str, int]:
        """Return the last `seq` fed to each parked run."""
        return dict(self._runs.seen)

    def watched(self) -> dict[str, int]:
        """Return the newest `seq` known of each execution that is driven, or about to be."""
        return {lease.held.execution: max(lease.heard, self._fed(lease)) for lease in self._drives.values()}

    def take(self, claimed: ClaimedExecution, asked_ms: int) -> None:
        """Drive an execution that was claimed by a request sent at `asked_ms`."""
        lease = Lease(claimed, asked_ms)
        with self._lock:
            self._leases[claimed.execution] = lease
        task = asyncio.get_running_loop().create_task(self._drive(claimed, lease), name=claimed.execution)
        self._drives[task] = lease
        task.add_done_callback(self._drove)

    def hint(self, news: Mapping[str, int]) -> None:
        """Hear up to which `seq` the logs of driven executions go."""
        for lease in self._drives.values():
            seq = news.get(lease.held.execution, 0)
            lease.heard = max(lease.heard, seq)
            live = self._runs.driven.get(lease.held.execution)
            if seq and live is not None and live.fence == lease.held.fence:
                live.run.hint((), seq)

    def lose(self, held: HeldExecution) -> None:
        """End a run whose lease is gone: its coroutine is closed and writes nothing more."""
        live = self._runs.driven.get(held.execution)
        if live is not None and live.fence == held.fence:
            live.run.interrupt(LeaseLost(f"execution {held.execution} is owned by somebody else, or may be"))

    async def idle(self) -> None:
        """Return once nothing is driven."""
        while self._drives:
            await asyncio.wait(self._drives)

    async def close(self) -> list[HeldExecution]:
        """Throw all runs away; return the executions that are still held."""
        left = [lease.held for lease in self._drives.values()]
        for task in self._drives:
            task.cancel()
        await asyncio.gather(*self._drives, return_exceptions=True)
        await self._runs.close()
        return left

    def _drove(self, task: asyncio.Task[None]) -> None:
        lease = self._drives.pop(task)
        with self._lock:
            if self._leases.get(lease.held.execution) is lease:
                del self._leases[lease.held.execution]
        self.when_freed()

    def _fed(self, lease: Lease) -> int:
        live = self._runs.driven.get(lease.held.execution)
        return live.run.replay.last_seq if live is not None else 0

    async def _drive(self, claimed: ClaimedExecution, lease: Lease) -> None:
        """Take one execution as far as it goes. Whatever goes wrong with it goes wrong with it alone."""
        journal = self._journals.opened(self._worker, claimed)
        try:
            live, events = await self._open(claimed, journal)
            live.run.hint((), lease.heard)
            outcome = await self._runs.drive(live, journal, events)
            log.debug("execution.let_go", execution=claimed.execution, outcome=outcome)
        except LeaseLost:
            log.info("execution.lost", execution=claimed.execution, fence=claimed.fence)
        except UNREADABLE as error:
            log.exception("execution.poison", execution=claimed.execution)
            await self._halt(journal, f"its log cannot be read: {error}")
        except Exception:
            log.exception(
                "execution.let_fall", execution=claimed.execution, action="it is taken up again when its lease ends"
            )

    async def _halt(self, journal: Journal, message: str) -> None:
        try:
            await journal.halt("stick", Reason.POISON, message)
        except LeaseLost:
            return

    async def _open(self, claimed: ClaimedExecution, journal: Journal) -> tuple[Live, list[Event]]:
        """Return a live run and the events it has not seen: the cached one, or a new one and the whole log."""
        events = list(claimed.events)
        if (kept := await self._runs.take(claimed.execution, claimed.fence)) is not None:
            last = events[-1].seq if events else kept.run.replay.last_seq
            return kept, events + (await journal.events(last) if claimed.last_seq > last else [])
        events = await whole_log(journal, events, claimed.last_seq)
        definition = self._definitions[FunctionLane(claimed.name, claimed.build)]
        function = function_of(definition, events[0].data["input"], claimed.tokens, self._large)
        run = Run(claimed.execution, function, self._clock, self._new_id)
        run.on_real_io = partial(self._waits_outside, claimed.execution)
        return Live(run, claimed.fence), events

    def _waits_outside(self, execution: str, places: list[str]) -> None:
        with self._lock:
            lease = self._leases.get(execution)
        outside = "; ".join(places)
        if lease is None or lease.outside == outside:
            return
        lease.outside = outside
        if outside:
            _say_real_io(execution, places)
        self.when_outside()

    def _new_id(self, prefix: str) -> str:
        return new_id(prefix, self._clock, self._random)


def _say_real_io(execution: str, places: list[str]) -> None:
    log.warning(
        "execution.real_io",
        execution=execution,
        at=places,
        action="it keeps its worker meanwhile; put what waits there into a step",
    )


def function_of(
    definition: DurableDefinition, input: Any, tokens: Issuer | None, large: Large | None = None
) -> Function:
    async def function(ctx: Context) -> Any:
        ctx.issuer, ctx.large = tokens, large
        return await run_durable(ctx, definition, input)

    return function
