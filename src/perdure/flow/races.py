"""Stands in for `asyncio.wait`, `as_completed`, `wait_for` and `timeout` in durable code: who won is recorded.

Branches see events one at a time in the order of the log, so who ends first is nearly always the log's own order. What
a branch learns in real IO is not in the log; the record of the winner makes a re-run follow it all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, NamedTuple, TypeVar, cast

from perdure.core import codec
from perdure.errors import InvalidInput
from perdure.flow.context import Try
from perdure.flow.meter import Wait
from perdure.flow.scope import Scope, here, named
from perdure.flow.waits import delay_ms_of

T = TypeVar("T")


class First(NamedTuple, Generic[T]):
    """Which branch ended first, counted from 0, and its value."""

    which: int
    value: T


@dataclass(frozen=True, slots=True)
class Completed(Generic[T]):
    """A branch that ended."""

    index: int
    """Which one, counted from 0."""
    task: asyncio.Task[T]

    def result(self) -> T:
        """Return its value, or raise its error."""
        return self.task.result()


async def first(*branches: Awaitable[T]) -> First[T]:
    """Run branches side by side until one ends; return which, with its value, or raise its error.

    The others are then cancelled and waited for: their `finally` blocks may still make durable calls, and what they
    raise is dropped. A cancelled step that may be repeated is stopped and not recorded.
    """
    scope = here()
    race = _Race(scope, branches)
    try:
        index = await race.next("first")
        race.cancel(but=index)  # before the winner is waited for: what has lost shall begin nothing any more
        await race.end_of(index)
    finally:
        await race.end()
    return First(index, race.tasks[index].result())


async def completed(*branches: Awaitable[T]) -> AsyncIterator[Completed[T]]:
    """Run branches side by side and give each when it ends: `async for one in completed(a(), b()): one.result()`.

    Leaving the loop early cancels the rest and waits for it, at the latest when the generator is closed.
    """
    scope = here()
    race = _Race(scope, branches)
    try:
        for _ in branches:
            index = await race.next("completed")
            await race.end_of(index)
            yield Completed(index, race.tasks[index])
    finally:
        await race.end()


async def timeout(
    branch: Awaitable[T],
    delay: timedelta | float | None = None,
    *,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
) -> T:
    """Return the branch's value, or cancel it and raise `TimeoutError` once the time is over, by the store's clock."""
    delay_ms = delay_ms_of(delay, timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))
    scope = here()
    address = scope.address("timeout")

    async def expire() -> None:
        await scope.context.sleep(address, delay_ms)

    which, value = await first(branch, expire())
    if which == 1:
        raise TimeoutError(f"it took longer than {delay_ms / 1000:g} s")
    return cast("T", value)


async def gather_at_most(limit: int, *branches: Awaitable[T]) -> list[T]:
    """Like `asyncio.gather`, with at most `limit` branches at a time. They begin in the order in which they are given.

    After the first error no further branch begins; those that run are cancelled and waited for, and it is raised.
    """
    if limit < 1:
        raise InvalidInput(f"gather_at_most: the limit should be 1 or more, found {limit}.", code="bad_limit")
    here()
    waiting = [_coroutine(branch) for branch in reversed(branches)]
    running: list[asyncio.Task[T]] = []
    gate = _Gate()
    try:
        while waiting or not all(task.done() for task in running):
            while waiting and sum(not task.done() for task in running) < limit:
                running.append(asyncio.ensure_future(waiting.pop()))
                running[-1].add_done_callback(gate.open)
            await gate.passed()
            _raise_first_error(running)
        return [task.result() for task in running]
    finally:
        for coroutine in waiting:
            coroutine.close()
        await _end(running)


def _raise_first_error(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if task.done():
            task.result()


class _Gate:
    """Opened whenever a branch ends. One waiter."""

    def __init__(self) -> None:
        self._wait = Wait()

    def open(self, _task: object = None) -> None:
        self._wait.give(None)

    async def passed(self) -> None:
        """Return once it was opened since the last time."""
        await self._wait
        self._wait = Wait()


class _Race:
    """Branches of which some have ended. Owner: the task that races them."""

    def __init__(self, scope: Scope, branches: tuple[Awaitable[Any], ...]) -> None:
        if not branches:
            raise InvalidInput("a race needs at least one branch.", code="no_branches")
        self._scope = scope
        self.tasks = [asyncio.ensure_future(_coroutine(branch)) for branch in branches]
        self._ended: list[int] = []
        """Those that ended and were not given out, in order."""
        self._given: set[int] = set()
        self._gate = _Gate()
        for index, task in enumerate(self.tasks):
            task.add_done_callback(lambda _task, index=index: self._end_of(index))

    def _end_of(self, index: int) -> None:
        self._ended.append(index)
        self._gate.open()

    async def next(self, name: str) -> int:
        """Return who ends next, as recorded."""
        while not self._ended:
            await self._gate.passed()
        proposed = self._ended[0]

        async def propose(_attempt: Try) -> str:
            return str(proposed)

        event = await self._scope.context.record(self._scope.address(name), codec.digest(len(self.tasks)), propose)
        index: int = event.data["value"]
        self._given.add(index)
        self._ended = [one for one in self._ended if one not in self._given]
        return index

    async def end_of(self, index: int) -> None:
        """Return once it has ended here too: another life may have learned in real IO what this one has yet to."""
        if not self.tasks[index].done():
            await asyncio.gather(self.tasks[index], return_exceptions=True)

    def cancel(self, *, but: int) -> None:
        """Cancel all others."""
        for index, task in enumerate(self.tasks):
            if index != but and not task.done():
                task.cancel()

    async def end(self) -> None:
        """Cancel what runs, and wait for it."""
        await _end(self.tasks)


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if not task.done():
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _coroutine(branch: Awaitable[T]) -> Coroutine[Any, Any, T]:
    if asyncio.iscoroutine(branch):
        return branch

    async def awaited() -> T:
        return await branch

    return named(type(branch).__name__.lower(), awaited())
