"""Waiting: for a time or a fact, whichever comes first, and for longer after each failure.

All of it by the `Clock` port. Nothing here knows what it waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from perdure.core.ports import Clock, Random

T = TypeVar("T")

FIRST_SECONDS = 0.1
CEILING_SECONDS = 5.0


class Backoff:
    """Growing pauses with jitter: 0.1 s, doubling up to 5 s, each cut by up to a half."""

    def __init__(self, random: Random, *, first: float = FIRST_SECONDS, ceiling: float = CEILING_SECONDS) -> None:
        self._random, self._first, self._ceiling = random, first, ceiling
        self._failures = 0

    def pause(self) -> float:
        """Return the next pause in seconds."""
        whole = min(self._first * 2 ** min(self._failures, 30), self._ceiling)
        self._failures += 1
        return self._random.uniform(whole / 2, whole)

    def reset(self) -> None:
        """Begin with the shortest again."""
        self._failures = 0


async def first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    """Return as soon as one of `waits` does; the others are cancelled. None of them may raise."""
    async with anyio.create_task_group() as group:

        async def watch(wait: Callable[[], Awaitable[object]]) -> None:
            await wait()
            group.cancel_scope.cancel()

        for wait in waits:
            group.start_soon(watch, wait)


async def rest(clock: Clock, seconds: float, *wakes: asyncio.Event) -> None:
    """Return after `seconds`, or as soon as one of `wakes` is set."""
    if not any(wake.is_set() for wake in wakes):
        await first_of(lambda: clock.sleep(seconds), *(wake.wait for wake in wakes))


async def ends_within(clock: Clock, seconds: float, future: asyncio.Future[T]) -> bool:
    """Wait up to `seconds` for `future`, which goes on if it takes longer. Says whether it is done."""
    await first_of(lambda: clock.sleep(seconds), lambda: asyncio.wait([future]))
    return future.done()


async def within(clock: Clock, seconds: float, call: Callable[[], Awaitable[T]]) -> T:
    """Return what `call` returns. Raises `TimeoutError` when that takes longer than `seconds`: it is cancelled then."""
    found: list[T] = []
    fault: Exception | None = None
    async with anyio.create_task_group() as group:

        async def alarm() -> None:
            await clock.sleep(seconds)
            group.cancel_scope.cancel()

        group.start_soon(alarm)
        try:
            found.append(await call())
        except Exception as error:  # noqa: BLE001 - carried out of the group, which would wrap it
            fault = error
        group.cancel_scope.cancel()
    if fault is not None:
        raise fault
    if not found:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return found[0]
