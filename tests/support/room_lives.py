"""Lives of servers and workers whose agent is woken in a room: what each does there, and where it is killed.

Lives are forked from a program that never has a thread, so that one costs no imports. All servers of a run listen on
one socket, which the program holds: whoever connects while none lives waits for the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perdure import failpoints
from perdure.client.tasks import HttpTaskSource
from perdure.core import codec, states
from perdure.core.budgets import Budget
from perdure.core.rooms import Invite, Join, OnCrash, OpenTask, Post, SetRights, Stop, written_id
from perdure.engine.keys import Principal
from perdure.errors import Retryable
from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest
from perdure.server.executor import ExecutorOptions
from perdure.server.guard import Head
from perdure.server.listen import bind, url_of
from perdure.server.node import Node, Parts, end_former_leases
from perdure.server.options import ServeOptions
from perdure.server.serve import serve_at
from perdure.store.ownership import open_owned
from perdure.store.postgres import open_postgres
from perdure.system import SystemClock, SystemRandom
from perdure.wire.worker_lock import default_folder
from perdure.worker.loop import Worker, WorkerOptions
from perdure.worker.main import lanes_of
from room_plots import ACME, AGENT, GLOBEX, PLOTS, TASK, Plot, reply_of

ROOM = written_id("room", ACME, "k")
LEASE_MS = 1_000
PATIENCE = 90.0
_PR_SET_PDEATHSIG = 1
OPTIONS = ServeOptions(port=0, drain_seconds=0.5)
_STILL = states.TERMINAL | {states.Execution.PAUSED}
"""States of a wake that was stopped, or is over."""


class Everybody:
    """Lets everybody in: there is one worker, and it is the agent's company's."""

    async def admit(self, head: Head) -> Principal:
        return Principal(GLOBEX, "worker")


@dataclass
class Life:
    """What one process does: where, and where it is killed. A store is a folder, or a database's address."""

    store: str
    notes: Path
    on_crash: str
    plot: str = "answers"
    kill: str = ""
    """A point and its pass, `record.after_commit@2`."""
    door: socket.socket | None = None
    """Where workers come in."""
    quiet: bool = False
    """Whether a server only answers, and carries nothing on."""

    @property
    def acted(self) -> Plot:
        return PLOTS[self.plot]

    def reply(self, request: ModelRequest) -> ModelReply:
        return reply_of(self.plot, self.notes, request)

    def open(self) -> Node:
        clock, random = SystemClock(), SystemRandom()
        models = Catalog(scripted={AGENT: self.reply}, environ={})
        parts = Parts(models, clock, random, ExecutorOptions(lease_ms=LEASE_MS))
        if self.store.startswith("postgres"):
            return Node(open_postgres(self.store, random=random), parts)
        owned = open_owned(Path(self.store) / "p.db", clock=clock, random=random, on_takeover=end_former_leases)
        return Node(owned.store, parts, close=owned.close)

    # -- as a server

    async def set_up(self, node: Node) -> None:
        """Make the room, with the agent in it."""
        acme, globex = node.api(ACME), node.api(GLOBEX)
        await acme.create_room("project", key="k", by="ann")
        await acme.write_in_room(ROOM, Invite(GLOBEX), by="ann")
        await globex.write_in_room(ROOM, Join(), by="bob")
        rule: OnCrash = "abandon" if self.on_crash == "abandon" else "resume"
        await globex.put_room_agent(ROOM, self.acted.agent.compile(), on_crash=rule, by="bob")
        await globex.write_in_room(ROOM, SetRights(codec.encode({"rules": list(self.acted.rules)})), by="bob")
        await globex.set_room_budget(Budget(usd=100, unpriced_usd=1), by="bob")

    async def work(self, node: Node) -> None:
        """Ask for the task, and see the wake to its end."""
        globex, member = node.api(GLOBEX), f"{GLOBEX}/{AGENT}"
        if self.acted.stopped:
            await globex.write_in_room(ROOM, Stop(member), by="bob")
        await node.api(ACME).write_in_room(ROOM, OpenTask(TASK, member, key="t"), by="ann")
        if self.acted.stopped:
            while not await is_still(node):  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.01)
            await globex.start_room(ROOM, member, by="bob")
        await ended(node)
        (self.notes / "server").write_text(json.dumps(failpoints.passes()), encoding="utf-8")

    async def again(self, node: Node) -> None:
        """Write to the agent once more: a fresh wake."""
        await node.api(ACME).write_in_room(ROOM, Post(f"@{AGENT}?", key="again"), by="ann")
        await ended(node)

    async def serve(self, what: Callable[[Node], Coroutine[Any, Any, None]]) -> None:
        """Do something as a server that workers reach. Whatever it is, doing it again from the top changes nothing."""
        node = self.open()
        if not self.quiet:
            node.start()
        async with _open_to_workers(node, self.door if self.acted.works else None):
            await asyncio.wait_for(_patiently(what, node), PATIENCE)
        await asyncio.to_thread(node.stop)

    # -- as a worker

    async def run_tools(self) -> None:
        """Work for the agent's company until a signal ends it; say then which points were passed."""
        assert self.door is not None
        source = HttpTaskSource(url_of(self.door), f"pdk_{'0' * 40}")
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._leave)
        options = WorkerOptions(lease_ms=LEASE_MS * 5, outbox=default_folder(), dependencies=str(self.notes))
        await Worker(source, lanes_of([self.acted.agent]), options).run()

    def _leave(self) -> None:
        (self.notes / "worker").write_text(json.dumps(failpoints.passes()), encoding="utf-8")
        os._exit(0)


async def _patiently(what: Callable[[Node], Coroutine[Any, Any, None]], node: Node) -> None:
    """Do it, and again where a read lost its connection: on a machine that is very busy a transaction of ours may lie
    idle for so long that it is ended."""
    while True:
        try:
            await what(node)
        except Retryable:
            continue
        return


@asynccontextmanager
async def _open_to_workers(node: Node, door: socket.socket | None) -> AsyncGenerator[None]:
    if door is None:
        yield
        return
    stop = asyncio.Event()
    serving = asyncio.create_task(serve_at(door, node, OPTIONS, stop=stop, gate=Everybody()))
    try:
        yield
    finally:
        stop.set()
        await serving


async def is_still(node: Node) -> bool:
    """Say whether the wake for the task was paused, or is over."""
    return (await node.api(GLOBEX).room_wakes(ROOM))[0].state in _STILL


async def ended(node: Node) -> None:
    """Return when every wake of the room has ended; say yes to what they wait for, once they wait."""
    globex = node.api(GLOBEX)
    for wake in await globex.room_wakes(ROOM):
        end = asyncio.ensure_future(globex.wait(wake.execution))
        while not end.done():
            await say_yes(node)
            await asyncio.wait({end}, timeout=0.02)
        await end


async def say_yes(node: Node) -> None:
    """Approve one act of a wake that holds nothing any more: one after the other, so that each run is like the next."""
    globex = node.api(GLOBEX)
    for one in await globex.approvals():
        if (await globex.execution(one.execution)).state == states.Execution.WAITING:
            await globex.decide(one.id, "approve", by="bob")
            return


# -- processes ---------------------------------------------------------------------------------------------------------


class Broke(Exception):
    """A life ended in another way than was planned; what it said went to the error output."""


def fork(life: Life, what: Callable[[Node], Coroutine[Any, Any, None]]) -> int:
    """Begin the life of a server; return its process."""
    return _fork(life, lambda: life.serve(what))


def fork_worker(life: Life) -> int:
    """Begin the life of a worker; return its process."""
    return _fork(life, life.run_tools)


def _fork(life: Life, main: Callable[[], Coroutine[Any, Any, None]]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            point, _, nth = life.kill.partition("@")
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # no life outlives a sweep that is broken off
            os.environ["XDG_STATE_HOME"] = str(life.notes)  # where workers leave results, and servers look for the dead
            failpoints.arm(f"{point}=kill@{nth}" if point else "", str(life.notes / "passed"))
            asyncio.run(main())
            code = 0
        except BaseException:  # noqa: BLE001 - a child goes no further than this
            traceback.print_exc(file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(code)
    return pid


def live(life: Life, what: Callable[[Node], Coroutine[Any, Any, None]]) -> None:
    """Live the whole life of a server. Raises `Broke`."""
    status = os.waitpid(fork(life, what), 0)[1]
    if os.waitstatus_to_exitcode(status) != 0:
        raise Broke(f"a life ended with {os.waitstatus_to_exitcode(status)}")


@dataclass
class House:
    """A server and, if the plot has tools, a worker; each is followed by the next when it dies. Owner: one run."""

    life: Life
    last: Callable[[Node], Coroutine[Any, Any, None]]
    """What the last server does."""
    takes_worker_along: bool = False
    """Whether the second server that is killed takes its worker with it."""
    killed: int = 0
    """How many lives ended where they were to end."""
    _server: int = 0
    _worker: int = 0
    _planned: str = ""
    """Where the server that lives now is to die."""
    _doom: str = ""
    """Where the worker that lives now is to die."""

    def see(self, servers: list[str], workers: list[str]) -> None:
        """Have servers and workers die at these points, one after the other, until a server has come to its end.

        Raises `Broke`.
        """
        with contextlib.closing(bind(OPTIONS)) as self.life.door:
            try:
                if self.life.acted.works:
                    self._next_worker(workers)
                left = [*servers, ""]
                while left:
                    self._next_server(left)
                    self._watch(workers)
            finally:
                self._dismiss()

    def _watch(self, workers: list[str]) -> None:
        """See a server to its end, and worker after worker meanwhile."""
        while (gone := os.waitpid(-1, 0))[0] != self._server:
            self._worker_died(gone, workers)
        self._server, code = 0, os.waitstatus_to_exitcode(gone[1])
        if code != 0 and (code != -signal.SIGKILL or not self._planned):
            raise Broke(f"a server ended with {code}")
        self.killed += code != 0
        if code and self.killed == 2 and self.takes_worker_along and self._worker:
            os.kill(self._worker, signal.SIGKILL)

    def _next_server(self, left: list[str]) -> None:
        self._planned = left.pop(0)
        life = replace(self.life, kill=self._planned)
        self._server = fork(life, life.work if left else self.last)

    def _next_worker(self, workers: list[str]) -> None:
        self._doom = workers.pop(0) if workers else ""
        self._worker = fork_worker(replace(self.life, kill=self._doom))

    def _worker_died(self, gone: tuple[int, int], workers: list[str]) -> None:
        pid, code = gone[0], os.waitstatus_to_exitcode(gone[1])
        if pid != self._worker or code != -signal.SIGKILL:
            raise Broke(f"process {pid} ended with {code}")
        self.killed += bool(self._doom)
        self._next_worker(workers)

    def _dismiss(self) -> None:
        """End what still lives: a worker in order, a server that nobody waits for any more at once."""
        for pid, with_signal in ((self._server, signal.SIGKILL), (self._worker, signal.SIGTERM)):
            if pid:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, with_signal)
                    os.waitpid(pid, 0)
        self._server = self._worker = 0
