"""The real clock and the real dice: the one place where the process's time and randomness are read."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time


class SystemClock:
    """`Clock` over the operating system's."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemRandom:
    """`Random` over the operating system's."""

    def token(self, size: int) -> bytes:
        return os.urandom(size)

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)  # noqa: S311 - jitter, not a secret


YOUNG = 10_000
"""Containers made and not dropped before Python looks for cycles among the young ones; its own figure is 700."""


def settle_memory() -> None:
    """Spare the search for cycles what lives as long as the process. For our own programs, once they are ready.

    Modules and schemas are some 80,000 objects that every full search would visit again. Never called in a process that
    belongs to a user's program: how its memory is searched is its author's choice. Takes about 40 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 50)
