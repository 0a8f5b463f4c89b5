"""One process's share of a store: its writer and its readers, the crew that works there, and who may ask it what.

The embedded runtime and the HTTP server both stand on a node. It has the writer's thread; its crew works on an event
loop that serves Perdure alone, the owner's or one of its own: never on one where users' code runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.core.blobs import MAX_BLOB_BYTES
from perdure.core.credentials import hash_of
from perdure.core.hooks import Hook
from perdure.core.ports import Clock, Embedder, Random
from perdure.core.tokens import Issuer, company_key
from perdure.core.views import ServerInfo
from perdure.engine.due import Sweep
from perdure.engine.gist import Gists
from perdure.engine.hooks import hook_of
from perdure.engine.keys import PREFIX, AddKey, Principal, add_key, principal_of
from perdure.engine.logins import AddLink, Redeem, add_link, end_session, redeem, session_of
from perdure.engine.rooms import Write, write_in_room
from perdure.engine.sweep import take_over
from perdure.errors import InternalError, PerdureError
from perdure.mailbox import Mailboxes
from perdure.models.port import Models
from perdure.server.alarm import with_alarms
from perdure.server.bridge import Bridge
from perdure.server.changes import Changes
from perdure.server.company_ports import CompanyPorts, ports_of
from perdure.server.crew import Crew
from perdure.server.direct import DirectApi
from perdure.server.direct_a2a import DirectA2aTasks
from perdure.server.elsewhere import Elsewhere
from perdure.server.executor import ExecutorOptions
from perdure.server.fleeting import Fleeting
from perdure.server.functions import DirectFunctionSource
from perdure.server.hub import DRAINING, Hub
from perdure.server.live import LiveText
from perdure.server.open_hooks import spoken_through
from perdure.server.presence import Workers
from perdure.server.reading import Queries, Reading
from perdure.server.secrets import Secrets
from perdure.server.server_keys import KeyRing, ServerKey
from perdure.server.store_time import StoreTime
from perdure.server.tasks import DirectTaskSource
from perdure.server.tool_source import ServerTools
from perdure.store.protocol import Store
from perdure.store.tx import Note, Tx
from perdure.store.writer import ThreadedWriter, Writer
from perdure.version import VERSION
from perdure.wire import state_file


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

    @property
    def anywhere(self) -> bool:
        """Say whether requests that companies ask for may go to addresses that are not public."""
        return self.tools is not None and self.tools.outbound.allow_private


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
        """Why it cannot go on. Written by `fail`."""
        self.draining = False
        self._store = store
        self._close = close or store.close
        self._announce = announce
        self.shared = store.shared
        """Whether other servers may have the store too."""
        publish = self._publish if store.shared else self.hub.publish
        self._writer = parts.writer(store, publish=with_alarms(publish), on_failed=self.fail)
        reading = parts.reading(store)
        self.bridge = Bridge(store, self._writer, mail, reading)
        self._fleeting = Fleeting(store, parts.writer, mail, reading) if store.shared else None
        sweep_time = StoreTime(self.bridge, parts.clock)
        self.elsewhere = Elsewhere(self.bridge, self.hub, parts.clock, None if store.shared else sweep_time)
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
        self._ports: dict[str, CompanyPorts] = {}
        """By company."""
        self._crew = Crew(self, self._writer, self._fleeting and self._fleeting.bridge, sweep_time)

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Begin to claim and drive executions, on `loop` or on one in a thread of its own.

        Called from another thread than the loop's, it returns when the executor runs; on the loop itself, at once.
        """
        self._crew.start(loop)

    def stop(self) -> None:
        """Take nothing more, let go of everything, close the store. Safe to call twice; not on the executor's loop."""
        self.drain()
        self._crew.stop()
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
        return self.accepting and self._crew.at_work and (not self.shared or self.elsewhere.answers)

    def fail(self, error: PerdureError) -> None:
        """Note why this process cannot go on, if it is the first reason. From any thread."""
        self.failure = self.failure or error

    # -- who asks ------------------------------------------------------------------------------------------------------

    def info(self) -> ServerInfo:
        return self._info

    def api(self, company: str) -> DirectApi:
        """Return the verbs of one company."""
        return self._ports_of(company).api

    def tasks(self, company: str) -> DirectTaskSource:
        """Return the queues of one company."""
        return self._ports_of(company).tasks

    def functions(self, company: str) -> DirectFunctionSource:
        """Return the durable functions of one company."""
        return self._ports_of(company).functions

    def replies(self, execution: str, after: int) -> Iterable[LiveText]:
        """Return the replies that models make for an execution, to a reader who was given its log up to an event."""
        return self._crew.replies(execution, after)

    def issuer(self, company: str) -> Issuer:
        """Return what makes the secrets of a company's tokens, for whoever holds its executions."""
        return Issuer(company_key(self._store.token_key, company), self.public_url)

    def changes(self, company: str) -> Changes:
        return self._ports_of(company).changes

    @property
    def pushes(self) -> bool:
        return self.parts.tools is not None

    def a2a(self, company: str) -> DirectA2aTasks:
        """Return the tasks of one company's published agents."""
        return self._ports_of(company).a2a

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

    def _ports_of(self, company: str) -> CompanyPorts:
        known = self._ports.get(company)
        # Two threads may make them at once; both then use those that are kept.
        return known or self._ports.setdefault(company, ports_of(self, company))

    def _publish(self, notes: Sequence[Note]) -> None:
        self.elsewhere.saw(notes)
        self.hub.publish(notes)


def end_former_leases(tx: Tx) -> None:
    """Take over all that the former owner of a file held itself. For the first transaction of a new owner."""
    steps = take_over.apply(tx, [Sweep(0)])
    tx.lock(next(steps))
    for _ in steps:
        raise InternalError("take_over yielded twice")
