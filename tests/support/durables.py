"""Drive users' durable functions over a log in memory, on a loop with scopes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from memory_journal import MemoryLog
from perdure.core.events import ASKED, Event, Kind
from perdure.core.tokens import Issuer
from perdure.flow.context import Context
from perdure.flow.driver import Outcome, Run
from perdure.flow.durable import DurableDefinition, DurableOptions, run_durable
from perdure.flow.scope import scoped_tasks
from perdure.testing.clock import FakeClock
from programs import VirtualLoop

T = TypeVar("T")

TERMINAL = frozenset({Kind.COMPLETED, Kind.FAILED, Kind.CANCELLED})


def durably(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a test on a loop for durable code, in virtual time."""

    def make_loop() -> asyncio.AbstractEventLoop:
        loop = VirtualLoop(0)
        scoped_tasks(loop)
        return loop

    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(work())


def durable_run(function: Callable[..., Any], input: Any = None, **options: Any) -> Run:
    """Return a run of a function that nobody drives yet."""
    definition = DurableDefinition(function.__name__, function, "b1", DurableOptions(**options))
    names = iter(range(1_000_000))

    async def main(ctx: Context) -> Any:
        ctx.issuer = Issuer("00" * 32, "https://example.test")
        return await run_durable(ctx, definition, input)

    return Run("exe_1", main, FakeClock(), lambda prefix: f"{prefix}_{next(names)}")


class Stage:
    """One execution of a function: its log, who holds it now, and what is done to it from outside."""

    def __init__(self, function: Callable[..., Any], input: Any = None, **options: Any) -> None:
        self._make = partial(durable_run, function, input, **options)
        self.log = MemoryLog()
        self.run: Run | None = None
        self.outcome: asyncio.Task[Outcome] | None = None

    def claim(self, *, again: bool = False) -> None:
        """Have it driven; `again`: from its log, by another process."""
        if self.run is None or again:
            self.run = self._make()
        journal = self.log.claim(self.run)
        news = self.log.events[self.run.replay.last_seq :]
        self.outcome = asyncio.get_running_loop().create_task(self.run.drive(journal, news))

    async def parked(self) -> Outcome:
        """Drive it until it is let go of."""
        if self.outcome is None or self.outcome.done():
            self.claim()
        assert self.outcome is not None
        return await self.outcome

    async def until(self, fact: Callable[[], Any]) -> None:
        """Keep it claimed until `fact()` is true."""
        for _ in range(10_000):
            if fact():
                return
            await asyncio.sleep(0.01)
            if self.outcome is not None and self.outcome.done():
                self.claim()
        raise AssertionError(f"it never came true: {self.log.events[-5:]}")

    async def drop(self) -> None:
        """Have its process die and another take over."""
        if self.outcome is not None:
            self.outcome.cancel()
            await asyncio.gather(self.outcome, return_exceptions=True)
        if self.run is not None:
            await self.run.close()
        self.run = self.outcome = None
        self.log.take_over()

    def answer(self, address: str, **data: Any) -> None:
        """Append what ends a wait."""
        kind = self.log.open()[address].kind
        ends = {Kind.WAIT_OPENED: Kind.WAIT_RESOLVED, Kind.TIMER_SET: Kind.TIMER_FIRED}
        self.log.append(ends.get(kind, Kind.CHILD_ENDED), address, **data)

    @property
    def asked(self) -> list[str]:
        """What was asked for, in order."""
        return [event.address for event in self.log.events if event.kind in ASKED]

    @property
    def last(self) -> Event:
        return self.log.events[-1]

    @property
    def output(self) -> Any:
        assert self.last.kind is Kind.COMPLETED, self.last
        return self.last.data["output"]


def to_the_end(function: Callable[..., Any], input: Any = None, **options: Any) -> Stage:
    """Run a function that needs nobody, and return its stage."""

    async def main() -> Stage:
        stage = Stage(function, input, **options)
        await _with_timers(stage)
        return stage

    return durably(main)


def again(stage: Stage, function: Callable[..., Any], cut: int | None = None, input: Any = None) -> Stage:
    """Run a function again from a part of another run's log."""

    async def main() -> Stage:
        other = Stage(function, input)
        other.log = MemoryLog(stage.log.events[:cut] if cut is not None else stage.log.events[:-1])
        await _with_timers(other)
        return other

    return durably(main)


async def _with_timers(stage: Stage) -> None:
    """Drive it to its end; whenever it waits, its timers fire."""
    while await stage.parked() == "parked":
        for address, event in stage.log.open().items():
            if event.kind is Kind.TIMER_SET:
                stage.answer(address)
