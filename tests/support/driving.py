"""Drive a durable function over a log in memory, and look at what it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from memory_journal import MemoryJournal, MemoryLog
from perdure.core.codec import digest
from perdure.core.items import ScheduleTask
from perdure.flow.context import Context, Try
from perdure.flow.driver import Outcome, Run
from perdure.testing.clock import FakeClock

Function = Callable[[Context], Coroutine[Any, Any, Any]]


def task(address: str) -> ScheduleTask:
    """Return a tool call."""
    return ScheduleTask(address, digest(address), "clerk", "post", "default", {}, "at_least_once", 3, 0)


def run_of(function: Function) -> Run:
    """Return a run that nobody drives yet."""
    names = iter(range(1_000))
    return Run("exe_1", function, FakeClock(), lambda prefix: f"{prefix}_{next(names)}")


def gives(value: str, ran: list[Try] | None = None) -> Callable[[Try], Coroutine[Any, Any, str]]:
    """Return a body that gives JSON text at once, and notes that it ran."""

    async def body(attempt: Try) -> str:
        if ran is not None:
            ran.append(attempt)
        return value

    return body


class Door:
    """A body that stands until it is opened."""

    def __init__(self, value: str = "1") -> None:
        self.value = value
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.cancelled = False

    async def __call__(self, _attempt: Try) -> str:
        self.entered.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return self.value


@dataclass
class Stage:
    """A log, the run that holds it, and how the drive that is under way ends."""

    log: MemoryLog
    run: Run
    journal: MemoryJournal
    outcome: asyncio.Task[Outcome]

    async def until(self, fact: Callable[[], Any]) -> None:
        """Return once `fact()` is true, whatever it looks at."""
        async with asyncio.timeout(60):
            while not fact():  # noqa: ASYNC110 - a fact of any kind has no event
                await asyncio.sleep(0)


@asynccontextmanager
async def driven(function: Function, log: MemoryLog | None = None, run: Run | None = None) -> AsyncIterator[Stage]:
    """Drive a function while the block lasts; whatever is left of it is thrown away then."""
    log = log or MemoryLog()
    run = run or run_of(function)
    journal = log.claim(run)
    outcome = asyncio.get_running_loop().create_task(run.drive(journal, log.events[run.replay.last_seq :]))
    try:
        yield Stage(log, run, journal, outcome)
    finally:
        outcome.cancel()
        await asyncio.gather(outcome, return_exceptions=True)
        await run.close()


async def drive(function: Function, log: MemoryLog) -> Outcome:
    """Drive a function from this log until it is let go of."""
    async with driven(function, log) as stage:
        return await stage.outcome
