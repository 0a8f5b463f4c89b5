"""The processes of a simulated world: the real server, workers and client, each life of them from its boot on.

What is put in place of the real: the network and the threads (`simulated_network`, `simulated_store`). Durable
functions run on the one loop there is. No outbox, no ownership lock: a server's next life is the next owner, at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from perdure.client.functions import HttpFunctionSource
from perdure.client.http import HttpApi
from perdure.client.tasks import HttpTaskSource
from perdure.core.ports import Clock
from perdure.flow.durable import durable_definition
from perdure.flow.scope import scoped_tasks
from perdure.models.catalog import Catalog
from perdure.server.app import App
from perdure.server.executor import ExecutorOptions
from perdure.server.node import Node, Parts, end_former_leases
from perdure.server.options import ServeOptions
from perdure.store.clock import StoreClock
from perdure.store.sqlite import open_sqlite
from perdure.store.tx import Tx
from perdure.testing.clock import LoopClock, SeededRandom
from perdure.worker.functions import FunctionOptions, FunctionWorker
from perdure.worker.loop import Worker, WorkerOptions
from perdure.worker.main import lanes_of
from simulated_agents import AGENT, FUNCTIONS, OUTSIDE, Outside
from simulated_network import URL, Network
from simulated_processes import Process, ProcessLoop
from simulated_store import SOUND, Disk, FaultyStore, LoopReading, LoopWriter

T = TypeVar("T")

LEASE_MS = 3_000
"""Of executions and tasks: short, so that little virtual time passes until a loss is noticed."""


class SkewedClock(LoopClock):
    """A machine's clock, whose wall time may be set."""

    skew_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.skew_ms


class DatabaseClock:
    """The clock of a database that several servers share: one for all, and it goes one way, as they may step it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._one_way = StoreClock(clock, 0)

    def wall_ms(self) -> int:
        return self._one_way.now()

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


@dataclass(eq=False)
class Machine:
    """Where lives of one kind of process follow each other."""

    name: str
    clock: SkewedClock
    process: Process | None = None
    leave: Callable[[float], None] | None = None
    """Asks the life that runs now to end in order, within so many seconds; None if it does not know how."""
    lives: int = 0


@dataclass(eq=False)
class Land:
    """What all processes share: the loop, the store's file, the network, the outside."""

    loop: ProcessLoop
    dice: random.Random
    file: Path
    outside: Outside
    net: Network
    owned: bool
    """One server owns the store; else several share it, as they would a database server."""
    disk: Disk = SOUND
    moments: dict[int, int] = field(default_factory=dict)
    stores: dict[str, FaultyStore] = field(default_factory=dict)
    """Of the servers that live."""
    database: DatabaseClock | None = None

    def boot(self, machine: Machine, main: Callable[[Process], Coroutine[Any, Any, None]]) -> Process:
        """Begin the next life of a process."""
        machine.lives += 1
        machine.leave = None
        process = machine.process = Process(self.loop, machine.name)

        async def live() -> None:
            OUTSIDE.set(self.outside)
            await main(process)

        process.run(live())
        return process

    def random(self) -> SeededRandom:
        return SeededRandom(self.dice.randrange(2**32))

    def own_dice(self) -> random.Random:
        return random.Random(self.dice.randrange(2**32))

    def server(self, machine: Machine) -> Callable[[Process], Coroutine[Any, Any, None]]:
        """Return the life of a server: open the store, take it over, serve."""

        async def main(process: Process) -> None:
            store = open_sqlite(self.file, clock=self._clock_of_store(machine), random=self.random())
            dice = self.own_dice()
            faulty = FaultyStore(store, process, dice, self.moments, shared=not self.owned)
            if self.owned:
                store.take_over(self._take_over)
            faulty.disk = self.disk
            self.stores[machine.name] = faulty
            process.on_end.append(lambda: self._forget(machine))
            models = Catalog(scripted={"simulated": self.outside.answer}, environ={})
            parts = Parts(
                models, machine.clock, self.random(), ExecutorOptions(lease_ms=LEASE_MS),
                writer=partial(LoopWriter, dice=dice), reading=lambda store: LoopReading(store, dice),
            )  # fmt: skip
            node = Node(faulty, parts)
            node.start(asyncio.get_running_loop())
            self.net.listen(machine.name, process, App(node, ServeOptions(auth=False), clock=machine.clock))
            while node.failure is None:  # noqa: ASYNC110 - as a supervisor looks at its child
                await asyncio.sleep(0.5)
            process.kill()

        return main

    def _clock_of_store(self, machine: Machine) -> Clock:
        if self.owned:
            return machine.clock
        self.database = self.database or DatabaseClock(machine.clock)
        return self.database

    def _forget(self, machine: Machine) -> None:
        self.stores.pop(machine.name, None)

    def _take_over(self, tx: Tx) -> None:
        end_former_leases(tx)
        self.moments[tx.now_ms] = self.outside.now_ms()

    def worker(self, machine: Machine) -> Callable[[Process], Coroutine[Any, Any, None]]:
        """Return the life of a worker for the agent's tools."""

        async def main(process: Process) -> None:
            clock, chance = machine.clock, self.random()
            source = HttpTaskSource(URL, transport=self.net.dial(process), clock=clock, random=chance)
            options = WorkerOptions(slots=2, name=machine.name, lease_ms=LEASE_MS, tool_loop=asyncio.get_running_loop())
            worker = Worker(source, lanes_of([AGENT]), options, clock=clock, random=chance)
            machine.leave = worker.stop
            await worker.run()
            process.kill()

        return main

    def functions(self, machine: Machine) -> Callable[[Process], Coroutine[Any, Any, None]]:
        """Return the life of a worker for durable functions."""

        async def main(process: Process) -> None:
            clock, chance = machine.clock, self.random()
            dial = self.net.dial(process)
            alive = HttpTaskSource(URL, transport=dial, clock=clock, random=chance)
            worker = FunctionWorker(
                lambda: HttpFunctionSource(URL, transport=dial, clock=clock, random=chance),
                alive,
                [durable_definition(one) for one in FUNCTIONS],
                FunctionOptions(lease_ms=LEASE_MS, name=machine.name),
                clock=clock,
                random=chance,
                code_loop=HomeLoop,
            )
            machine.leave = worker.stop
            await worker.run()
            process.kill()

        return main

    def api(self, process: Process, clock: Clock) -> HttpApi:
        """Return a client's way to the servers."""
        return HttpApi(URL, transport=self.net.dial(process), clock=clock, random=self.random())


class HomeLoop:
    """`CodeLoop` on the loop that runs already."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def start(self) -> None:
        scoped_tasks(self.loop)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def join(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    async def end(self, clock: Clock) -> bool:
        return True
