"""The worker: one process, one long poll for all its tools, never more tasks than it has free slots.

Its loop runs no user code, so no tool can keep it from prolonging leases. Start is `run`; `stop` means: take no more,
finish or hand back, then leave.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from perdure.agent.tool import ToolDefinition
from perdure.core.ids import new_id
from perdure.core.ports import Clock, Random
from perdure.core.work import LEASE_MS, Lane, LeasedTask, WorkerInfo
from perdure.errors import InvalidInput
from perdure.log import get_log
from perdure.system import SystemClock, SystemRandom
from perdure.wire.api import TaskSource
from perdure.worker.attempt import Attempts
from perdure.worker.grip import Grip
from perdure.worker.heirs import Heirs
from perdure.worker.keeper import Keeper
from perdure.worker.link import Link
from perdure.worker.outbox import Outbox
from perdure.worker.pace import first_of, rest
from perdure.worker.poll import Poll
from perdure.worker.reports import Reports
from perdure.worker.runners import Runners
from perdure.worker.shutdown import SETTLE_SECONDS, leave
from perdure.worker.slots import Slots

log = get_log(__name__)

TOOL_SLOTS = 16
FLUSH_SECONDS = 5.0
"""How long stopping waits until the last results are delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How one worker works."""

    slots: int = TOOL_SLOTS
    """How many bodies run at once."""
    name: str = ""
    """For people; default: host and process."""
    lease_ms: int = LEASE_MS
    drain_seconds: float = 10.0
    """How long running bodies may go on after the first `stop`."""
    tool_loop: asyncio.AbstractEventLoop | None = None
    """Where async tools run; default: a loop of the worker's own, in a thread. Best not the loop of `run`."""
    dependencies: Any = None
    """What tools find in `ToolContext.dependencies`."""
    agent_dependencies: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The same for the tools of one agent, by its name."""
    id_prefix: str = ""
    """Of the worker's id, which is random per boot."""
    outbox: Path | None = None
    """The folder that keeps results until they are answered, shared by this user's workers; None keeps none, and its
    death is only ever suspected. A source in the worker's own process needs none."""


class Worker:
    """Takes tasks from a source, runs them, tells how they ended. `run` once; everything but `stop` on its loop."""

    def __init__(
        self,
        source: TaskSource,
        tools: Mapping[Lane, ToolDefinition],
        options: WorkerOptions | None = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        options = options or WorkerOptions()
        if options.slots < 1 or not tools:
            raise InvalidInput(
                f"a worker has {len(tools)} tools and {options.slots} slots; expected at least one of each.",
                code="bad_worker",
            )
        self._source, self._options = source, options
        self._clock: Clock = clock or SystemClock()
        self._random: Random = random or SystemRandom()
        self.id = options.id_prefix + new_id("wrk", self._clock, self._random)
        self.info = _describe(self.id, tools, options)
        self._assemble(tools)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._performing: set[asyncio.Task[None]] = set()
        """One task for each attempt: plain ones, as a task group would cost as much as the rest of an attempt."""
        self._stopping = False
        self._drain_until_ms: int | None = None
        self.left_running = 0
        """How many bodies could not be stopped. Above 0, the process ends only when their threads do."""

    def _assemble(self, tools: Mapping[Lane, ToolDefinition]) -> None:
        options, clock, random = self._options, self._clock, self._random
        self._slots = Slots(options.slots, clock)
        self._link = Link(self._source, self.info, clock, random)
        self._link.watch(self._slots.changed.set)
        self._keeper = Keeper(self._source, self.id, self._link, clock, random)
        self._outbox = Outbox(options.outbox, self.id, clock) if options.outbox is not None else None
        self._reports = Reports(self._source, self.id, self._link, clock, random, self._outbox)
        self._reports.when_answered(self._answered)
        self._runners = Runners(options.tool_loop, "perdure worker", clock)
        self._attempts = Attempts(
            worker=self.id,
            source=self._source,
            link=self._link,
            keeper=self._keeper,
            reports=self._reports,
            runners=self._runners,
            tools=tools,
            dependencies=lambda agent: options.agent_dependencies.get(agent, options.dependencies),
            clock=clock,
            random=random,
        )
        self._poll = Poll(self._source, self.id, self.info.lanes, options.lease_ms, clock, random)

    @property
    def busy(self) -> int:
        """How many slots are taken."""
        return self._slots.taken

    async def connected(self) -> None:
        """Return once the source knows this worker and it may take tasks."""
        await self._link.up.wait()

    async def run(self) -> None:
        """Work until `stop`. Returns when all is finished, handed back or given up, and all results are delivered.

        The connection may come and go: this returns and raises for no reason of the network's. Cancelling it is not
        stopping: bodies are cancelled at once and nothing is said.
        """
        self._loop = asyncio.get_running_loop()
        log.info("worker.started", worker=self.id, worker_name=self.info.name, slots=self.info.slots)
        parts = [self._link.hold, self._keeper.run, self._reports.run]
        if self._outbox is not None:
            self._outbox.open()
            self.info = self._link.info = self._outbox.proving(self.info)
            parts.append(Heirs(self._source, self._link, self._outbox, self._clock).run)
        try:
            async with anyio.create_task_group() as side:
                for part in parts:
                    side.start_soon(part)
                try:
                    await self._take()
                    await self._drain()
                finally:
                    await self._dismiss()
                await self._flush()
                side.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._runners.close(wait=not self.left_running)
            self._reports.close()
            log.info("worker.stopped", worker=self.id, left_running=self.left_running)

    def stop(self, drain_seconds: float | None = None) -> None:
        """Ask it to stop: take no more, let bodies finish for `drain_seconds`, hand back the rest. From any thread.

        Returns at once; `run` returns when it is done. A second call cuts the time that is left, by default to nothing.
        """
        asked = self._loop is None
        if asked:
            self._stop(drain_seconds)
        if self._loop is None:
            return
        try:
            if asked:  # it began to run meanwhile, and may have looked before it was asked
                self._loop.call_soon_threadsafe(self._slots.changed.set)
            else:
                self._loop.call_soon_threadsafe(self._stop, drain_seconds)
        except RuntimeError:
            return  # the loop is closed: it stopped long ago

    def _stop(self, drain_seconds: float | None) -> None:
        if drain_seconds is None:
            drain_seconds = 0.0 if self._stopping else self._options.drain_seconds
        until_ms = self._clock.monotonic_ms() + round(drain_seconds * 1000)
        self._drain_until_ms = until_ms if self._drain_until_ms is None else min(self._drain_until_ms, until_ms)
        self._stopping = True
        self._slots.changed.set()
        self._poll.cut()

    # Taking tasks.

    async def _take(self) -> None:
        while not self._stopping:
            self._slots.changed.clear()  # before looking: what changes during the look must be looked at again
            free = self._free()
            if free <= 0 or not self._link.up.is_set():
                await self._slots.changed.wait()
                continue
            tasks, asked_ms = await self._poll.tasks(free)
            for task in tasks:
                self._admit(task, asked_ms)

    def _free(self) -> int:
        # Results that nobody takes are bounded too: each is a body's worth of memory.
        return min(self._slots.left, 2 * self._options.slots - self._slots.taken - self._reports.pending)

    def _admit(self, task: LeasedTask, asked_ms: int) -> None:
        grip = self._grip(task, asked_ms)
        self._slots.take(grip)
        self._keeper.add(grip)
        performing = asyncio.get_running_loop().create_task(self._perform(grip), name=task.address)
        self._performing.add(performing)
        performing.add_done_callback(self._performing.discard)

    async def _dismiss(self) -> None:
        """Cancel the attempts that are left, and see them gone."""
        left = list(self._performing)
        for performing in left:
            performing.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.gather(*left, return_exceptions=True)

    def _grip(self, task: LeasedTask, asked_ms: int) -> Grip:
        return Grip(task, self._clock, asked_ms=asked_ms, poke=self._poke)

    def _poke(self) -> None:
        """From any thread: a body asks for a heartbeat."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._keeper.poke)

    async def _perform(self, grip: Grip) -> None:
        try:
            await self._attempts.perform(grip)
        except Exception:
            # A bug of ours in one attempt: its lease runs out, the others go on.
            log.exception("worker.attempt_broke", execution=grip.task.execution, task=grip.task.address)
            self._keeper.drop(grip)
        finally:
            self._slots.free(grip)

    def _answered(self, grip: Grip) -> None:
        self._keeper.drop(grip)
        self._slots.changed.set()

    # Leaving.

    async def _drain(self) -> None:
        log.info("worker.stopping", worker=self.id, running=self._slots.taken)
        await self._settle()
        self.left_running = await leave(self._slots, self._attempts, self._clock, self._left_to_drain)

    async def _settle(self) -> None:
        """Hand back what came of a request that stopping cut off."""

        async def hand_back() -> None:
            tasks, asked_ms = await self._poll.late()
            if tasks:
                await self._attempts.hand_back([self._grip(task, asked_ms) for task in tasks])

        if self._poll.unanswered and self._link.up.is_set():
            await first_of(hand_back, lambda: self._clock.sleep(SETTLE_SECONDS))

    def _left_to_drain(self) -> int:
        return (self._drain_until_ms or 0) - self._clock.monotonic_ms()

    async def _flush(self) -> None:
        if not self._reports.idle.is_set():  # not by their number: what was answered may still be written down
            await rest(self._clock, FLUSH_SECONDS, self._reports.idle)
        if self._reports.pending:
            kept = self._outbox is not None and self._outbox.lock
            action = "the next worker of this user delivers them" if kept else "they are tried again, or ruled on"
            log.error("worker.results_undelivered", results=self._reports.pending, action=action)


def _describe(worker: str, tools: Mapping[Lane, ToolDefinition], options: WorkerOptions) -> WorkerInfo:
    host, pid = platform.node(), os.getpid()
    return WorkerInfo(
        worker=worker,
        name=options.name or f"{host}:{pid}",
        lanes=tuple(sorted(tools, key=lambda lane: (lane.agent, lane.tool, lane.queue))),
        slots=options.slots,
        pid=pid,
        host=host,
    )
