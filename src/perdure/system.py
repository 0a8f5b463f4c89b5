"""The real clock and the real dice: the one place where the process's time and randomness are read."""

from __future__ import annotations

import asyncio
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
