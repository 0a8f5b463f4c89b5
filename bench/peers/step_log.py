"""The bodies of steps, and the file in which they say that they ran. Standard library only."""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path
from typing import NamedTuple

TURNS = 5
STEPS = TURNS * 2
SLOW_STEP = 3
"""In W3 this one takes a while, so that all executions are under way at once."""
SLOW_SECONDS = 0.2
STEP_LOG = "BENCH_STEP_LOG"
"""Names the file to which bodies tell that they ran. Without it they tell nobody."""

_dice = random.Random(7)  # noqa: S311 - text that no database can make smaller, the same in each run
_LETTERS = "abcdefghijklmnopqrstuvwxyz 0123456789"
REPLIES = ["".join(_dice.choices(_LETTERS, k=1024)) for _ in range(32)]
RESULTS = ["".join(_dice.choices(_LETTERS, k=512)) for _ in range(32)]


class StepLog:
    """A file of lines `execution step monotonic-nanoseconds process`, which outlives whoever is killed. All processes
    of a run append to the same one."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def tell(self, execution: str, step: int) -> None:
        """Append one line, if anybody wants to know."""
        if self._descriptor is None:
            path = os.environ.get(STEP_LOG)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if path else -1
        if self._descriptor >= 0:
            line = (execution.encode(), step, time.monotonic_ns(), os.getpid())
            os.write(self._descriptor, b"%s %d %d %d\n" % line)


_log = StepLog()
ENDED = -1
"""In a step log: the execution's code has come to its end."""


async def body(execution: str, step: int) -> str:
    """Be step number `step` of an execution: even ones ask a model, odd ones call a tool."""
    if step == SLOW_STEP and execution.startswith("w3"):
        await asyncio.sleep(SLOW_SECONDS)
    return did(execution, step)


def did(execution: str, step: int) -> str:
    """Tell that a step's body ran, and return what it gives."""
    _log.tell(execution, step)
    return (RESULTS if step % 2 else REPLIES)[step % 32]


def ended(execution: str) -> None:
    """Say that an execution's code has come to its end."""
    _log.tell(execution, ENDED)


class Told(NamedTuple):
    """A line of a step log."""

    execution: str
    step: int
    at_ns: int
    process: int


def told(path: Path) -> list[Told]:
    """Return what a step log holds. A line that is not whole yet is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    parts = [line.split() for line in lines if line.endswith("\n")]
    return [Told(name, int(step), int(when), int(process)) for name, step, when, process in parts]
