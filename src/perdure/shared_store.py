"""One SQLite file, several processes: one owns it and serves the others, and when it is gone one of them follows it.

The lock decides who owns, never a guess. A process that joined goes on where it was: what it asks waits for the next
owner, and what may have been done already is asked for so that it is not done twice.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

from perdure.client.discover import knows_nonce
from perdure.client.http import HttpApi
from perdure.client.tasks import HttpTaskSource
from perdure.core.ports import Clock, Random
from perdure.engine.keys import DEFAULT_COMPANY
from perdure.engine.sweep import LOCAL_WORKER
from perdure.errors import PerdureError, Retryable, StoreInUse
from perdure.joined import JoinedApi, Place
from perdure.joined_source import JoinedSource
from perdure.log import get_log
from perdure.models.port import Models
from perdure.models.vectors import installed_embedder
from perdure.server.direct_blobs import max_value_bytes
from perdure.server.door import Door
from perdure.server.functions import DirectFunctionSource
from perdure.server.node import Node, Parts, end_former_leases
from perdure.server.retention import parse_retention
from perdure.server.server_keys import keys_by
from perdure.server.tool_source import tools_by
from perdure.service_loop import ServiceLoop
from perdure.store.ownership import Ask, Hint, Ownership, open_owned, read_hint
from perdure.system import SystemClock, SystemRandom
from perdure.wire.api import Api, TaskSource
from perdure.wire.worker_lock import default_folder
from perdure.worker.function_service import FunctionPlace
from perdure.worker.pace import rest

log = get_log(__name__)

WATCH_SECONDS = 0.25
"""Between two looks whether the owner is gone. A request that fails makes the next look come at once."""
ANSWER_SECONDS = 60.0
"""How long an owner may take to prove that it lives. Long, because a machine may be busy and refusing helps nobody; an
owner that the system says is stopped is given up after one try."""
TRY_SECONDS = 5.0
"""How long one question after that proof waits."""
APPEAR_SECONDS = 15.0
"""How long a new owner may take from its lock to its address."""
_PAUSE_SECONDS = 0.03


@dataclass
class SharedStore:
    """This process's part in a store: its owner, or somebody who joined. `open`, then `close`, off the service loop."""

    store: str | os.PathLike[str]
    models: Models
    service: ServiceLoop
    join: bool = True
    """Share: serve those who come, and join whoever was first. Else `store_in_use`."""
    answer_seconds: float = ANSWER_SECONDS
    node: Node | None = None
    """Set while this process owns the store."""
    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=SystemRandom)
    _door: Door | None = None
    _place: Place | None = None
    """Whom we joined; None while we own it and never joined."""
    _watch: asyncio.Task[None] | None = None
    _look: asyncio.Event = field(default_factory=asyncio.Event)
    _silent_ms: int = 0
    """How long owners were asked and gave no proof, before this process had joined."""

    def open(self) -> tuple[Api, TaskSource]:
        """Own the store or join its owner; return its verbs and queues.

        Raises what opening a store raises, and `StoreInUse`: `store_in_use` if the owner lets nobody join,
        `store_owner_not_answering` if it does not prove within seconds that it lives.
        """
        until_ms = self.clock.monotonic_ms() + round(APPEAR_SECONDS * 1000)
        while True:
            try:
                node = open_node(self.store, self.models)
            except StoreInUse as error:
                found = self.service.wait(self._try_to_join(error, self.clock.monotonic_ms() < until_ms))
                if found is not None:
                    return found
            else:
                self._begin(node)
                if self.join:
                    self.service.wait(self._open_door(node))
                else:
                    node.announce(None, kind="runtime", alone=True)
                return node.api(DEFAULT_COMPANY), node.tasks(DEFAULT_COMPANY)

    def functions(self, alive: TaskSource) -> FunctionPlace:
        """Return where durable functions are served now: here, or by the owner that this process joined."""
        if self.node is not None:
            source = partial(DirectFunctionSource, self.node, DEFAULT_COMPANY)
            return FunctionPlace(source, self.node.tasks(DEFAULT_COMPANY), LOCAL_WORKER)
        place = self._current()
        assert isinstance(place.api, HttpApi)
        return FunctionPlace(place.api.functions, alive, over=place.over, outbox=default_folder())

    def close(self) -> None:
        """Leave: as the owner, let the next one have it. Safe to call when `open` failed."""
        try:
            if self.service.runs:
                self.service.wait(self._leave())
        finally:  # Ctrl-C or not
            if self.node is not None:
                self.node.stop()

    # -- joining -------------------------------------------------------------------------------------------------------

    async def _try_to_join(self, error: StoreInUse, patient: bool) -> tuple[Api, TaskSource] | None:
        """Return the owner's verbs and queues; None if it may be worth another try."""
        hint = read_hint(self.store)
        if not self.join or (hint is not None and hint.alone):
            raise error
        if hint is None or hint.address is None or hint.key is None:
            if not patient:
                raise error
            await self.clock.sleep(_PAUSE_SECONDS)  # it has the lock and is about to say where it listens
            return None
        asked_ms = self.clock.monotonic_ms()
        if not await self._proves(hint):
            self._silent_ms += self.clock.monotonic_ms() - asked_ms
            if self._silent_ms > self.answer_seconds * 1000 or _is_stopped(hint.pid):
                await asyncio.to_thread(self._refuse_silent, hint)
            await self.clock.sleep(_PAUSE_SECONDS)
            return None
        self._place = _place_of(hint)
        self._watch = asyncio.get_running_loop().create_task(self._watch_owner(hint), name="watch the store's owner")
        log.info("store.joined", store=str(self.store), owner_pid=hint.pid)
        api = JoinedApi(self._current, self._moved, self.clock, self.random)
        return cast("Api", api), JoinedSource(self._current)

    async def _proves(self, hint: Hint) -> bool:
        """Whether who answers at the owner's address is the owner. Until then it is shown no key."""
        assert hint.address is not None
        return await knows_nonce(hint.address, hint.nonce, seconds=min(TRY_SECONDS, self.answer_seconds))

    def _refuse_silent(self, asked: Hint) -> None:
        """Raise `store_owner_not_answering` if the one that was asked still owns the store."""
        try:
            Ownership.acquire(self.store, random=self.random, ask=lambda _address: None).release()
        except StoreInUse as error:
            if error.code == StoreInUse.default_code or read_hint(self.store) != asked:
                return
            raise

    def _current(self) -> Place:
        assert self._place is not None
        return self._place

    async def _moved(self, place: Place) -> None:
        """Wait until `place` is over, or for a moment; look at once whether the owner is gone."""
        self._look.set()
        await rest(self.clock, WATCH_SECONDS, place.over)

    async def _watch_owner(self, hint: Hint) -> None:
        """Until this process owns the store: follow its owner, whoever that is."""
        while self.node is None:
            await rest(self.clock, WATCH_SECONDS, self._look)
            self._look.clear()
            try:
                hint = await self._follow(hint)
            except PerdureError as error:
                log.warning("store.not_taken_over", code=error.code, reason=error.message, action="will try again")
            except Exception:
                log.exception("store.not_taken_over", action="will try again")

    async def _follow(self, hint: Hint) -> Hint:
        """Own the store if it is free and this process may; else join a new owner. Returns whom it found."""
        if hint.kind != "server":  # a server comes back: to take its file would keep it from that
            node = await self._try_to_own()
            if node is not None:
                self._begin(node)
                await self._open_door(node)
                await self._move(Place(node.api(DEFAULT_COMPANY), node.tasks(DEFAULT_COMPANY), owned=True))
                log.info("store.taken_over", store=str(self.store))
                return hint
        found = read_hint(self.store)
        if found is None or found.nonce == hint.nonce or found.address is None or found.key is None:
            return hint
        if not await self._proves(found):
            return hint
        await self._move(_place_of(found))
        log.info("store.joined", store=str(self.store), owner_pid=found.pid)
        return found

    async def _move(self, place: Place) -> None:
        former, self._place = self._current(), place
        former.over.set()
        await former.aclose()

    # -- owning --------------------------------------------------------------------------------------------------------

    async def _try_to_own(self) -> Node | None:
        trying = asyncio.ensure_future(asyncio.to_thread(self._own))
        try:
            return await asyncio.shield(trying)
        except asyncio.CancelledError:  # its thread cannot be called back, and what it got must not stay locked
            node = await trying
            if node is not None:
                await asyncio.to_thread(node.stop)
            raise

    def _own(self) -> Node | None:
        try:
            return open_node(self.store, self.models)
        except StoreInUse:
            return None
        except Retryable as error:
            if error.code != "store_busy":
                raise
            return None

    def _begin(self, node: Node) -> None:
        self.node = node
        node.start(self.service.loop)

    async def _open_door(self, node: Node) -> None:
        """Let others join. Where that cannot be, the store is this process's alone."""
        try:
            self._door = Door(node, self.random)
            node.announce(self._door.open(), key=self._door.key, kind="runtime")
        except (PerdureError, NotImplementedError) as error:
            log.warning("store.not_shared", reason=str(error), action="none: other processes are refused")
            node.announce(None, kind="runtime", alone=True)

    async def _leave(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait((self._watch,))
        if self._door is not None:
            door, self._door = self._door, None  # it is closed once, should this be asked for again
            await door.close()
        if self._place is not None:
            self._place.over.set()
            await self._place.aclose()


def open_node(
    store: str | os.PathLike[str], models: Models, parts: Parts | None = None, *, ask: Ask | None = None
) -> Node:
    """Own a SQLite file and open a node over it. Raises what opening a store raises, and `StoreInUse`.

    `ask` finds out whether an owner that says where it listens is alive there: see `owner_check`.
    """
    clock, random = SystemClock(), SystemRandom()
    said = os.environ.get("PERDURE_RETENTION")
    parts = parts or Parts(
        models,
        clock,
        random,
        tools=tools_by(os.environ),
        server_keys=keys_by(os.environ),
        retention_ms=parse_retention(said) if said else None,
        max_value_bytes=max_value_bytes(os.environ),
        embedder=installed_embedder(),
    )
    owned = open_owned(store, clock=parts.clock, random=parts.random, ask=ask, on_takeover=end_former_leases)
    ownership = owned.ownership
    return Node(owned.store, parts, nonce=ownership.nonce, close=owned.close, announce=ownership.announce)


def owner_check(store: str | os.PathLike[str], wait: Callable[[Coroutine[object, object, bool]], bool]) -> Ask:
    """Return what asks the owner of a store for proof that it lives. `wait` runs the question to its end."""

    def ask(address: str) -> str | None:
        hint = read_hint(store)
        return hint.nonce if hint is not None and wait(knows_nonce(address, hint.nonce)) else None

    return ask


def _is_stopped(pid: int) -> bool:
    """Whether the system says that a process is stopped. Decides how long to wait for it, never who owns the store."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] in (["T"], ["t"])


def _place_of(hint: Hint) -> Place:
    assert hint.address is not None
    return Place(HttpApi(hint.address, hint.key), HttpTaskSource(hint.address, hint.key))
