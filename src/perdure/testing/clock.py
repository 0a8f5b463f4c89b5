"""Time and chance that only a test moves: `Clock` and `Random` of `perdure.core.ports`.

No thread and no timer of its own; safe to read and to advance from any thread.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import threading

START_WALL_MS = 1_700_000_000_000


class FakeClock:
    """`Clock` that stands still until `advance`."""

    def __init__(self, wall_ms: int = START_WALL_MS) -> None:
        self._lock = threading.Lock()
        self._wall_ms = wall_ms
        self._monotonic_ms = 0
        self._births = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        """A heap of (due, birth, wake): who is due first, and of those due together who slept first, wakes first."""
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    async def sleep(self, seconds: float) -> None:
        """Return once `advance` has passed `seconds` from now. Nothing to wait for: yields once."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._births += 1
            sleeper = (self._monotonic_ms + round(seconds * 1000), self._births, wake)
            heapq.heappush(self._sleepers, sleeper)
            self._tell_watchers()
        try:
            await wake
        finally:
            self._forget(sleeper)

    def advance(self, seconds: float) -> None:
        """Move both clocks on and wake, in order, everybody who is due by then.

        They run when their loop next does. What they sleep for after that counts from the new time, so advance step
        by step to see somebody sleep twice.
        """
        with self._lock:
            step = round(seconds * 1000)
            if step < 0:
                raise ValueError(f"advance({seconds}): time does not go back; `step_wall` moves the wall clock alone")
            self._wall_ms += step
            self._monotonic_ms += step
            while self._sleepers and self._sleepers[0][0] <= self._monotonic_ms:
                _wake(heapq.heappop(self._sleepers)[2])

    def step_wall(self, seconds: float) -> None:
        """Move the wall clock alone, either way, as an administrator or a time server does. Nobody wakes."""
        with self._lock:
            self._wall_ms += round(seconds * 1000)

    async def asleep(self, count: int = 1) -> None:
        """Return once at least `count` sleepers wait: the fact to wait for before `advance`."""
        seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._watchers.append((count, seen))
            self._tell_watchers()
        await seen

    def _tell_watchers(self) -> None:
        for watcher in [w for w in self._watchers if w[0] <= len(self._sleepers)]:
            self._watchers.remove(watcher)
            _wake(watcher[1])

    def _forget(self, sleeper: tuple[int, int, asyncio.Future[None]]) -> None:
        with self._lock:
            if sleeper in self._sleepers:  # cancelled before it was due
                self._sleepers.remove(sleeper)
                heapq.heapify(self._sleepers)


def _wake(future: asyncio.Future[None]) -> None:
    """Resolve `future` on its own loop, which may run in another thread."""

    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    loop = future.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(resolve)


class LoopClock:
    """`Clock` over a loop's own time: virtual under `perdure.testing.simulation`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start_ms: int = START_WALL_MS) -> None:
        self._loop, self._start_ms = loop, start_ms

    def wall_ms(self) -> int:
        return self._start_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return round(self._loop.time() * 1000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SeededRandom:
    """`Random` that gives the same sequence for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)
