"""Executors by hand: several over one store, on the test's own loop, with no sweep but the test's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from node_bench import PATIENCE, NodeBench, Script
from perdure.core.ports import Clock
from perdure.engine.claim import Claim, Claimed, claim
from perdure.models.catalog import Catalog
from perdure.models.scripted import Step
from perdure.server.bridge import Bridge
from perdure.server.executor import Executor, ExecutorOptions
from perdure.server.node import Node, Parts
from perdure.store.operation import Operation
from perdure.store.protocol import Reads
from perdure.store.standing import Topic
from perdure.system import SystemClock
from perdure.testing.clock import SeededRandom
from which_store import open_store

T = TypeVar("T")


@dataclass
class Notes:
    """A bridge that keeps what was asked of it and what came back, and may be told to fail or to wait."""

    bridge: Bridge
    answers: list[tuple[str, Any, Any]] = field(default_factory=list)
    before: Callable[[str, Any], Any] | None = None
    """Awaited before an operation is submitted; what it raises is the answer."""
    before_read: Callable[[], Any] | None = None

    def hold_reads(self) -> tuple[asyncio.Event, asyncio.Event]:
        """Have reads wait; return what is set once one does, and what lets all of them go on."""
        waiting, go_on = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            waiting.set()
            await go_on.wait()

        self.before_read = hold
        return waiting, go_on

    def run(
        self, operation: Operation[Any, T], row: Any, wants: tuple[Topic, ...] = (), *, unchanged: bool = False
    ) -> asyncio.Future[T]:
        return asyncio.get_running_loop().create_task(self._run(operation, row, wants, unchanged))

    def tell(self, operation: Operation[Any, Any], row: Any, *, unchanged: bool = False) -> None:
        self.bridge.tell(operation, row, unchanged=unchanged)

    async def _run(self, operation: Operation[Any, T], row: Any, wants: tuple[Topic, ...], unchanged: bool) -> T:
        if self.before is not None:
            await self.before(operation.name, row)
        result = await self.bridge.run(operation, row, wants, unchanged=unchanged)
        self.answers.append((operation.name, row, result))
        return result

    async def read(self, query: Callable[[Reads], T]) -> T:
        if self.before_read is not None:
            await self.before_read()
        return await self.bridge.read(query)

    def claims(self, execution: str) -> list[Claimed]:
        """Return the claims of one execution, in order."""
        answers = [answer for name, _, answer in self.answers if name == "claim"]
        return [one for claimed in answers for one in claimed if one.ref.execution == execution]


@dataclass
class House:
    """One store, its verbs, and the executors that were begun."""

    bench: NodeBench
    models: Catalog
    clock: Clock
    options: ExecutorOptions
    running: dict[Executor, asyncio.Task[None]] = field(default_factory=dict)
    notes: dict[Executor, Notes] = field(default_factory=dict)

    def open(self, **options: Any) -> Executor:
        """Begin another executor."""
        node = self.bench.node
        notes = Notes(node.bridge)
        given = ExecutorOptions(**options) if options else self.options
        executor = Executor(notes, node.hub, lambda _company: self.models, self.clock, node.parts.random, given)  # type: ignore[arg-type]
        self.notes[executor] = notes
        self.running[executor] = asyncio.get_running_loop().create_task(executor.run())
        return executor

    async def claims_no_more(self, executor: Executor) -> None:
        """Let an executor's claims get no answer from now on; the one that stands is taken back."""
        self.notes[executor].before = _never_claims
        await self.bench.node.bridge.run(claim, Claim(executor.holder, 0, 0))

    async def close(self, executor: Executor) -> None:
        """End an executor as a process that stops does, without giving back what it owns."""
        task = self.running.pop(executor)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def until(self, fact: Callable[[], Any]) -> None:
        """Return once `fact()` is true."""
        async with asyncio.timeout(PATIENCE):
            while not fact():  # noqa: ASYNC110 - a fact of any kind has no event
                await asyncio.sleep(0.002)


async def _never_claims(name: str, _row: Any) -> None:
    if name == "claim":
        await asyncio.Event().wait()


@asynccontextmanager
async def house_in(
    folder: Path, script: Script | Sequence[Step | BaseException], *, clock: Clock | None = None, **options: Any
) -> AsyncIterator[House]:
    """Open a store with nobody at work on it."""
    script = script if isinstance(script, Script) else Script(script)
    clock = clock or SystemClock()
    models = Catalog(scripted={"clerk": script}, environ={})
    random = SeededRandom(7)
    store = open_store(folder / "p.db", clock=clock, random=random)
    node = Node(store, Parts(models, clock, random))
    house = House(NodeBench(node, script), models, clock, ExecutorOptions(**options))
    try:
        yield house
    finally:
        for executor in list(house.running):
            await house.close(executor)
        await asyncio.to_thread(node.stop)
