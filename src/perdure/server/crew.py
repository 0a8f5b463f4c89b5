"""All that works at a node by itself, on one loop: it drives executions, sweeps, looks elsewhere, and calls tools.

They begin together and end together: what ends one of them unasked ends all, and is the node's failure.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio.abc import TaskGroup

from perdure.engine.claim import Claim, claim
from perdure.engine.sweep import Drop, drop
from perdure.errors import InternalError, Retryable, StoreFailed
from perdure.log import get_log
from perdure.server.a2a_outbox import Outbox, Outside
from perdure.server.bridge import Bridge
from perdure.server.company_models import CompanyModels
from perdure.server.embedding import Embedding
from perdure.server.executor import Executor
from perdure.server.live import LiveText
from perdure.server.relay import Relay
from perdure.server.retention import Retention
from perdure.server.silence import bury
from perdure.server.stalled import end_stalled
from perdure.server.store_time import StoreTime
from perdure.server.sweeps import SWEEP_SECONDS, Due, Sweeps
from perdure.server.tool_source import server_worker
from perdure.service_loop import ServiceLoop
from perdure.store.writer import Writer

if TYPE_CHECKING:
    from perdure.server.node import Node

log = get_log(__name__)

TOOLS_DRAIN_SECONDS = 2.0
"""How long calls that the server makes may go on while it leaves."""


class Crew:
    """At work from `start` to `stop`, which are safe from any thread but the loop's own."""

    def __init__(self, node: Node, writer: Writer, fleeting: Bridge | None, sweep_time: StoreTime) -> None:
        """`fleeting` writes what need not last, where other servers may share the store. `sweep_time` is the store's
        clock for the task of the sweeps alone."""
        self._node = node
        self._writer = writer
        self._fleeting = fleeting
        self._sweep_time = sweep_time
        self._executor: Executor | None = None
        self._relay: Relay | None = None
        """Where other servers may share the store, once the executor is there."""
        self._own_loop: ServiceLoop | None = None
        self._leave: Callable[[], None] | None = None
        """Set while they work: makes them let go of everything and end."""
        self._work: Future[None] | None = None
        self._begun = threading.Event()

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Begin on `loop`, or on one in a thread of its own. Returns when they work; on the loop itself, at once."""
        if loop is None:
            self._own_loop = ServiceLoop("perdure-executor")
            self._own_loop.start()
            loop = self._own_loop.loop
        self._work = asyncio.run_coroutine_threadsafe(self._work_until_told(), loop)
        if not _runs_here(loop):
            self._begun.wait()

    def stop(self) -> None:
        """Return once all of them have ended. Safe to call twice, and before `start`."""
        if self._leave is not None:
            self._leave()
        if self._work is not None:
            wait((self._work,))
        if self._own_loop is not None:
            self._own_loop.stop()

    @property
    def at_work(self) -> bool:
        return self._begun.is_set() and self._work is not None and not self._work.done()

    def replies(self, execution: str, after: int) -> Iterable[LiveText]:
        """Return the replies that models make for an execution, to a reader who was given its log up to an event."""
        if self._relay is not None:
            return self._relay.of(execution, after)
        return self._executor.texts.of(execution) if self._executor is not None else ()

    async def _work_until_told(self) -> None:
        node, loop, leave = self._node, asyncio.get_running_loop(), asyncio.Event()
        executor = self._executor = self._make_executor()
        if self._fleeting is not None:
            clock, random = node.parts.clock, node.parts.random
            self._relay = Relay(executor.texts, executor.holder, self._fleeting, clock, random)
        self._leave = lambda: _call(loop, leave.set)
        self._begun.set()
        if node.draining:
            return
        try:
            async with anyio.create_task_group() as group:
                self._begin(group, executor)
                async with self._calling_tools():
                    await leave.wait()
                group.cancel_scope.cancel()
        except* StoreFailed as errors:
            node.fail(_first(errors))
        except* Exception as errors:
            log.exception("node.executor_died")
            found = _first(errors)
            node.fail(InternalError(f"the executor died: {found!r}; see the log and restart"))
        if node.failure is None:
            await self._let_go(executor.holder)

    def _make_executor(self) -> Executor:
        node, parts = self._node, self._node.parts
        models = partial(CompanyModels, parts.models, node.secrets, anywhere=parts.anywhere)
        options = replace(parts.executor, embedder=parts.embedder)
        idle = node.elsewhere.nothing_ready
        return Executor(node.bridge, node.hub, models, parts.clock, parts.random, options, idle)

    def _begin(self, group: TaskGroup, executor: Executor) -> None:
        """Begin all but the tools, each until it is cancelled."""
        node, parts = self._node, self._node.parts
        group.start_soon(executor.run)
        look = node.elsewhere.deadlines if node.shared else self._deadlines_at_home
        retention = Retention(node.bridge, parts.clock, parts.retention_ms)
        group.start_soon(Sweeps(node.bridge, self._sweep_time, parts.clock, look=look, retention=retention).run)
        group.start_soon(bury, node.bridge)
        if self._relay is not None:
            group.start_soon(self._relay.run)
            group.start_soon(node.elsewhere.run, self._relay)
            group.start_soon(node.workers.run)
            group.start_soon(end_stalled, node.bridge, parts.clock, parts.executor.lease_ms)
        if parts.embedder is not None:
            group.start_soon(Embedding(node.bridge, node.hub, parts.clock, parts.embedder).run)
        if parts.tools is not None:
            outside = Outside(parts.tools.outbound, node.shared)
            group.start_soon(Outbox(node.bridge, node.hub, parts.clock, parts.random, outside).run)

    async def _deadlines_at_home(self) -> Due:
        await self._node.parts.clock.sleep(SWEEP_SECONDS)
        return await self._node.elsewhere.deadlines_at_home(self._writer.commits)

    @asynccontextmanager
    async def _calling_tools(self) -> AsyncGenerator[None]:
        """Have the server's own tools called meanwhile; then let what runs come to an end, for a moment."""
        tools = self._node.parts.tools
        if tools is None:
            yield
            return
        worker = server_worker(self._node, tools)
        async with anyio.create_task_group() as group:
            group.start_soon(worker.run)
            yield
            worker.stop(TOOLS_DRAIN_SECONDS)

    async def _let_go(self, holder: str) -> None:
        """Leave what the executor still owns in the store to others, at once if the store takes it."""
        bridge = self._node.bridge
        try:
            # First, and not in one batch: a wish of its own that has yet to be answered would be granted what it drops.
            await bridge.run(claim, Claim(holder, 0, 0))
            await bridge.run(drop, Drop(holder))
        except Retryable as error:
            log.warning("node.not_let_go", code=error.code, action="none: its leases run their time")


def _first(errors: BaseExceptionGroup[Any]) -> Any:
    """Return one error of a group, which says enough: whatever came first ended the others."""
    found: Any = errors.exceptions[0]
    return _first(cast("BaseExceptionGroup[Any]", found)) if isinstance(found, BaseExceptionGroup) else found


def _call(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(what)


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
