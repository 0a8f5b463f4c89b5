"""One process's share of a store: its writer, its executor, its sweeps, and who may ask it what.

The embedded runtime and the HTTP server both stand on a node. It has the writer's thread; the executor runs on an event
loop that serves Perdure alone, the owner's or one of its own: never on one where users' code runs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import anyio

from perdure.core.blobs import MAX_BLOB_BYTES
from perdure.core.hooks import Hook
from perdure.core.ports import Clock, Embedder, Random
from perdure.core.tokens import Issuer, company_key, hash_of
from perdure.core.views import ServerInfo
from perdure.engine.claim import Claim, claim
from perdure.engine.due import Sweep
from perdure.engine.gist import Gists
from perdure.engine.hooks import hook_of
from perdure.engine.keys import PREFIX, AddKey, Principal, add_key, principal_of
from perdure.engine.logins import AddLink, Redeem, add_link, end_session, redeem, session_of
from perdure.engine.rooms import Write, write_in_room
from perdure.engine.sweep import Drop, drop, take_over
from perdure.errors import InternalError, PerdureError, Retryable, StoreFailed
from perdure.log import get_log
from perdure.mailbox import Mailboxes
from perdure.models.port import Models
from perdure.server.a2a_outbox import Outbox, Outside
from perdure.server.alarm import with_alarms
from perdure.server.bridge import Bridge
from perdure.server.changes import Changes
from perdure.server.company_models import CompanyModels
from perdure.server.direct import DirectApi
from perdure.server.direct_a2a import DirectA2aTasks
from perdure.server.elsewhere import Elsewhere
from perdure.server.embedding import Embedding
from perdure.server.executor import Executor, ExecutorOptions
from perdure.server.fleeting import Fleeting
from perdure.server.functions import DirectFunctionSource
from perdure.server.hub import DRAINING, Hub
from perdure.server.live import LiveText
from perdure.server.open_hooks import spoken_through
from perdure.server.presence import Workers
from perdure.server.reading import Queries, Reading
from perdure.server.relay import Relay
from perdure.server.retention import Retention
from perdure.server.secrets import Secrets
from perdure.server.server_keys import KeyRing, ServerKey
from perdure.server.silence import bury
from perdure.server.stalled import end_stalled
from perdure.server.store_time import StoreTime
from perdure.server.sweeps import SWEEP_SECONDS, Due, Sweeps
from perdure.server.tasks import DirectTaskSource
from perdure.server.tool_source import ServerTools, server_worker
from perdure.service_loop import ServiceLoop
from perdure.store.protocol import Store
from perdure.store.tx import Note, Tx
from perdure.store.writer import ThreadedWriter, Writer
from perdure.version import VERSION
from perdure.wire import state_file

log = get_log(__name__)

TOOLS_DRAIN_SECONDS = 2.0
"""How long calls that the server makes may go on while it leaves."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a node is made of, besides its store."""

    models: Models
    clock: Clock
    random: Random
    executor: ExecutorOptions = field(default_factory=ExecutorOptions)
    tools: ServerTools | None = None
    """How it calls the tools that servers call; None leaves them to others."""
    writer: Callable[..., Writer] = ThreadedWriter
    """What is to write: called as `ThreadedWriter` is."""
    reading: Callable[[Store], Queries] = Reading
    """What is to read."""
    retention_ms: int | None = None
    """What to tell the store about how long it keeps executions that have ended; None leaves it as it is."""
    max_value_bytes: int = MAX_BLOB_BYTES
    """The largest value it takes."""
    server_keys: tuple[ServerKey, ...] = ()
    """What secrets are under; without any, a file has a key of its own, and a database has none."""
    embedder: Embedder | None = None
    """What makes vectors of what rooms hold; None: rooms are searched by words alone."""


class Node:
    """Open for business from `start` to `stop`. Safe from any thread and any loop."""

    def __init__(
        self,
        store: Store,
        parts: Parts,
        *,
        nonce: str = "",
        close: Callable[[], None] | None = None,
        announce: Callable[..., None] | None = None,
    ) -> None:
        """`close` gives the store up at the end; without it the node only closes the store. `announce` tells who else
        wants the store where its owner listens."""
        self.parts = parts
        mail = Mailboxes()
        self.hub = Hub(mail)
        self.gists = Gists()
        self.public_url = ""
        """Where the public reaches this server, for the addresses of tokens; empty if nowhere."""
        self.failure: PerdureError | None = None
        self.draining = False
        self._store = store
        self._close = close or store.close
        self._announce = announce
        self.shared = store.shared
        """Whether other servers may have the store too."""
        publish = self._publish if store.shared else self.hub.publish
        self._writer = parts.writer(store, publish=with_alarms(publish), on_failed=self._failed)
        reading = parts.reading(store)
        self.bridge = Bridge(store, self._writer, mail, reading)
        self._fleeting = Fleeting(store, parts.writer, mail, reading) if store.shared else None
        self._store_time = StoreTime(self.bridge, parts.clock)
        self.elsewhere = Elsewhere(self.bridge, self.hub, parts.clock, None if store.shared else self._store_time)
        """Hears what other servers do, and knows what there is to do."""
        self.look_time = StoreTime(self.bridge, parts.clock)
        """The store's clock for who only looks; that of the sweeps belongs to their task."""
        self._info = ServerInfo(VERSION, store.id, nonce, store.dialect, parts.clock.wall_ms())
        self.workers = Workers(self.bridge, parts.clock, self.look_time, nonce, shared=store.shared)
        """Those connected here or, where several servers share the store, anywhere."""
        own_key = None if store.shared else state_file.home() / "secrets" / f"{store.id}.key"
        self.secrets = Secrets(self.bridge, parts.clock, parts.random, KeyRing(parts.server_keys, own_key))
        if parts.tools is not None:
            self.secrets.hide(*parts.tools.outbound.variables.values())
        self._apis: dict[str, DirectApi] = {}
        self._sources: dict[str, DirectTaskSource] = {}
        self._functions: dict[str, DirectFunctionSource] = {}
        self._changes: dict[str, Changes] = {}
        self._a2a: dict[str, DirectA2aTasks] = {}
        self._executor: Executor | None = None
        self._relay: Relay | None = None  # where other servers may share the store, once the executor is there
        self._own_loop: ServiceLoop | None = None
        self._leave: Callable[[], None] | None = None
        """Set while the executor runs: makes it let go of everything and end."""
        self._work: Future[None] | None = None
        self._running = threading.Event()

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Begin to claim and drive executions, on `loop` or on one in a thread of its own.

        Called from another thread than the loop's, it returns when the executor runs; on the loop itself, at once.
        """
        if loop is None:
            self._own_loop = ServiceLoop("perdure-executor")
            self._own_loop.start()
            loop = self._own_loop.loop
        self._work = asyncio.run_coroutine_threadsafe(self._work_until_stopped(), loop)
        if not _runs_here(loop):
            self._running.wait()

    def stop(self) -> None:
        """Take nothing more, let go of everything, close the store. Safe to call twice; not on the executor's loop."""
        self.drain()
        if self._leave is not None:
            self._leave()
        if self._work is not None:
            wait((self._work,))
        if self._own_loop is not None:
            self._own_loop.stop()
        self._writer.stop()
        if self._fleeting is not None:
            self._fleeting.stop()
        self.secrets.close()
        self.bridge.close()
        self._close()

    def announce(self, address: str | None, **more: Any) -> None:
        """Say where this owner of the store listens, to processes that find the store taken. `more`: as
        `Ownership.announce`."""
        if self._announce is not None:
            self._announce(address, **more)

    def drain(self) -> None:
        """Take nothing more, and have those told who wait for work. The end of a liveness connection now says nothing
        about its worker."""
        self.draining = True
        self.hub.publish([Note(*DRAINING)])

    @property
    def accepting(self) -> bool:
        return not self.draining and self.failure is None

    def ready(self) -> bool:
        """Say whether the store answers and the executor runs."""
        working = self._running.is_set() and self._work is not None and not self._work.done()
        return self.accepting and working and (not self.shared or self.elsewhere.answers)

    # -- who asks ------------------------------------------------------------------------------------------------------

    def info(self) -> ServerInfo:
        return self._info

    def api(self, company: str) -> DirectApi:
        """Return the verbs of one company."""
        return self._apis.setdefault(company, DirectApi(self, company))

    def tasks(self, company: str) -> DirectTaskSource:
        """Return the queues of one company."""
        return self._sources.setdefault(company, DirectTaskSource(self, company))

    def functions(self, company: str) -> DirectFunctionSource:
        """Return the durable functions of one company."""
        return self._functions.setdefault(company, DirectFunctionSource(self, company))

    def replies(self, execution: str, after: int) -> Iterable[LiveText]:
        """Return the replies that models make for an execution, to a reader who was given its log up to an event."""
        if self._relay is not None:
            return self._relay.of(execution, after)
        return self._executor.live.of(execution) if self._executor is not None else ()

    def issuer(self, company: str) -> Issuer:
        """Return what makes the secrets of a company's tokens, for whoever holds its executions."""
        return Issuer(company_key(self._store.token_key, company), self.public_url)

    def changes(self, company: str) -> Changes:
        return self._changes.setdefault(company, Changes(self.bridge, company, self.parts.clock))

    @property
    def pushes(self) -> bool:
        return self.parts.tools is not None

    def a2a(self, company: str) -> DirectA2aTasks:
        """Return the tasks of one company's published agents."""
        return self._a2a.setdefault(company, DirectA2aTasks(self, company))

    async def authenticate(self, key: str) -> Principal | None:
        if key.startswith(PREFIX):
            return await self.bridge.read(lambda reads: principal_of(reads, key))
        now_ms = self.parts.clock.wall_ms()
        return await self.bridge.read(lambda reads: session_of(reads, key, now_ms))

    async def add_link(self, who: Principal, secret: str) -> int:
        return await self.bridge.run(add_link, AddLink(who, secret))

    async def redeem(self, link: str, session: str) -> Principal | None:
        return await self.bridge.run(redeem, Redeem(link, session))

    async def end_session(self, session: str) -> None:
        await self.bridge.run(end_session, session)

    async def knows_token(self, secret: str) -> bool:
        return await self.bridge.glance(lambda reads: reads.row("token_by_hash", token=hash_of(secret)) is not None)

    async def hook(self, secret: str) -> Hook | None:
        return await self.bridge.glance(lambda reads: hook_of(reads, secret))

    async def say(self, hook: Hook, text: str, key: str) -> None:
        await self.bridge.ask(write_in_room, Write(hook.room, *spoken_through(hook, text, key)))

    async def add_key(self, company: str, name: str, key: str) -> None:
        await self.bridge.run(add_key, AddKey(company, name, key))

    # -- the executor --------------------------------------------------------------------------------------------------

    async def _work_until_stopped(self) -> None:
        parts = self.parts
        loop, leave = asyncio.get_running_loop(), asyncio.Event()
        idle = self.elsewhere.nothing_ready
        models = partial(CompanyModels, parts.models, self.secrets)
        options = replace(parts.executor, embedder=parts.embedder)
        executor = Executor(self.bridge, self.hub, models, parts.clock, parts.random, options, idle)
        self._executor = executor
        if self._fleeting is not None:
            self._relay = Relay(executor.live, executor.holder, self._fleeting.bridge, parts.clock, parts.random)
        self._leave = lambda: _call(loop, leave.set)
        self._running.set()
        if self.draining:
            return
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(executor.run)
                look = self.elsewhere.deadlines if self.shared else self._deadlines_at_home
                retention = Retention(self.bridge, parts.clock, parts.retention_ms)
                group.start_soon(Sweeps(self.bridge, self._store_time, parts.clock, look=look, retention=retention).run)
                group.start_soon(bury, self.bridge)
                if self._relay is not None:
                    group.start_soon(self._relay.run)
                    group.start_soon(self.elsewhere.run, self._relay)
                    group.start_soon(self.workers.run)
                    group.start_soon(end_stalled, self.bridge, parts.clock, parts.executor.lease_ms)
                if parts.embedder is not None:
                    group.start_soon(Embedding(self.bridge, self.hub, parts.clock, parts.embedder).run)
                if parts.tools is not None:
                    outside = Outside(parts.tools.outbound, self.shared)
                    group.start_soon(Outbox(self.bridge, self.hub, parts.clock, parts.random, outside).run)
                async with self._calling_tools():
                    await leave.wait()
                group.cancel_scope.cancel()
        except* StoreFailed as errors:
            self._failed(_first(errors))
        except* Exception as errors:
            log.exception("node.executor_died")
            found = _first(errors)
            self.failure = self.failure or InternalError(f"the executor died: {found!r}; see the log and restart")
        if self.failure is None:
            await self._let_go(executor.holder)

    async def _deadlines_at_home(self) -> Due:
        await self.parts.clock.sleep(SWEEP_SECONDS)
        return await self.elsewhere.deadlines_at_home(self._writer.commits)

    async def _let_go(self, holder: str) -> None:
        """Leave what the executor still owns in the store to others, at once if the store takes it."""
        try:
            # First, and not in one batch: a wish of its own that has yet to be answered would be granted what it drops.
            await self.bridge.run(claim, Claim(holder, 0, 0))
            await self.bridge.run(drop, Drop(holder))
        except Retryable as error:
            log.warning("node.not_let_go", code=error.code, action="none: its leases run their time")

    @asynccontextmanager
    async def _calling_tools(self) -> AsyncGenerator[None]:
        """Have the server's own tools called meanwhile; then let what runs come to an end, for a moment."""
        if self.parts.tools is None:
            yield
            return
        worker = server_worker(self, self.parts.tools)
        async with anyio.create_task_group() as group:
            group.start_soon(worker.run)
            yield
            worker.stop(TOOLS_DRAIN_SECONDS)

    def _publish(self, notes: Sequence[Note]) -> None:
        self.elsewhere.saw(notes)
        self.hub.publish(notes)

    def _failed(self, error: StoreFailed) -> None:
        self.failure = self.failure or error


def end_former_leases(tx: Tx) -> None:
    """Take over all that the former owner of a file held itself. For the first transaction of a new owner."""
    steps = take_over.apply(tx, [Sweep(0)])
    tx.lock(next(steps))
    for _ in steps:
        raise InternalError("take_over yielded twice")


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
