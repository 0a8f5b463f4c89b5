"""Run real coroutines in virtual time and in an order that a seed decides: the same seed, the same run.

Single-threaded and closed: sockets, threads, child processes and real sleeping are refused. The locks, queues, task
groups and time-outs of asyncio and anyio work as they are; hours of waiting pass in milliseconds.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
import random
import socket
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack, contextmanager
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, TypeVarTuple, Unpack, cast

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MAX_ROUNDS = 5_000_000


class Escape(RuntimeError):
    """Simulated code reached for the real world, whose timing no seed decides."""


class Standstill(RuntimeError):
    """Everything waits, and no timer is set: in reality this would hang for ever. Or it never stops turning."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What a simulation came to."""

    value: T
    trace: str
    """Fingerprint of which task ran when. Equal for equal seeds, unless something in the code is not deterministic."""
    virtual_seconds: float
    rounds: int


class _TimeJump:
    """What stands in for the selector: no file is ever ready, so waiting is moving the clock."""

    now = 0.0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Standstill("every task waits for another and no timer is set")
        self.now += timeout
        return []


class SimLoop(asyncio.BaseEventLoop):
    """Event loop without files: time jumps to the next timer, and each round of ready callbacks is shuffled.

    asyncio itself keeps the order of `call_soon`; code that is right only in that order fails here, which is meant.
    """

    # asyncio's own, which every loop of the standard library builds on; the same from 3.11 to 3.13.
    _ready: deque[asyncio.Handle]

    def __init__(self, seed: int, max_rounds: int = MAX_ROUNDS) -> None:
        super().__init__()
        self._selector = _TimeJump()
        self._dice = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._births: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
        self._trace = hashlib.blake2b(digest_size=8)
        self._max_rounds = max_rounds
        self._thread = threading.get_ident()
        self._born = 0
        self.rounds = 0
        self.escape: Escape | None = None
        """The first attempt to leave, kept in case the code swallowed the error."""

    @property
    def trace(self) -> str:
        return self._trace.hexdigest()

    def time(self) -> float:
        return self._selector.now

    def create_task(self, *args: Any, **kwargs: Any) -> asyncio.Task[Any]:
        task = super().create_task(*args, **kwargs)
        self._born += 1
        self._births[task] = self._born
        return task

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if threading.get_ident() != self._thread:
            self.refuse("a callback from another thread")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> Any:
        self.refuse(f"a thread for {func!r}")

    def refuse(self, what: str) -> None:
        """Raise `Escape`, and remember it."""
        escape = Escape(f"{what} in a simulation: use the port, or its in-memory form")
        self.escape = self.escape or escape
        raise escape

    def _run_once(self) -> None:
        self.rounds += 1
        if self.rounds > self._max_rounds:
            raise Standstill(f"still turning after {self._max_rounds:,} rounds, at {self.time():,.0f} virtual seconds")
        if len(self._ready) > 1:
            self._shuffle()
        self._trace.update(f"{self.time()}:{[self._birth(handle) for handle in self._ready]};".encode())
        cast("Any", super())._run_once()

    def _shuffle(self) -> None:
        # Sorted first: what was made ready in the order of a set of tasks came in the order of their addresses.
        handles = sorted(self._ready, key=self._birth)
        self._dice.shuffle(handles)
        self._ready.clear()
        self._ready.extend(handles)

    def _birth(self, handle: asyncio.Handle) -> int:
        """Return the number of the task that a callback moves on; 0 when it moves none."""
        owner = getattr(getattr(handle, "_callback", None), "__self__", None)
        return self._births.get(cast("object", owner), 0) if isinstance(owner, asyncio.Task) else 0

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing: there are no files."""

    def _write_to_self(self) -> None:
        """Nothing: nobody outside needs to wake this loop."""


def run_simulation(
    seed: int, main: Callable[[], Coroutine[Any, Any, T]], *, max_rounds: int = MAX_ROUNDS
) -> Outcome[T]:
    """Run `main()` to its end under `seed`.

    Raises what it raises, with the seed noted; `Standstill` when nothing can ever happen again; `Escape` when anything
    in it reached for a socket, a thread, a process or real time, even if the code caught the error.
    """
    loop = SimLoop(seed, max_rounds)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner, closed(loop):
            value = runner.run(main())
        if loop.escape:
            raise loop.escape
    except BaseException as error:
        error.add_note(f"simulation seed {seed}, at {loop.time():,.3f} virtual seconds")
        if loop.escape and error is not loop.escape:
            raise loop.escape from error
        raise
    return Outcome(value, loop.trace, loop.time(), loop.rounds)


_EXITS: tuple[tuple[Any, str], ...] = (
    (threading.Thread, "start"),
    (socket.socket, "__init__"),
    (subprocess.Popen, "__init__"),
    (time, "sleep"),
    (os, "fork"),
)
"""The ways out of a simulation."""


@contextmanager
def closed(loop: SimLoop) -> Generator[None]:
    """Refuse, for as long as it is entered, the ways out to this thread and to no other."""
    inside = threading.get_ident()

    def guarded(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == inside:
                loop.refuse(name)
            return original(*args, **kwargs)

        return call

    with ExitStack() as undo:
        for owner, name in _EXITS:
            original = getattr(owner, name)
            undo.callback(setattr, owner, name, original)
            setattr(owner, name, guarded(f"{owner.__name__}.{name}", original))
        yield
