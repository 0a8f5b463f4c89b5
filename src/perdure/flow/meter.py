"""Know when code has run dry: every task of an execution waits for something that only its driver can bring.

Each coroutine of an execution runs inside `Tracked`, which sees what it yields to the event loop. A wait of ours is a
`Wait`; anything else is real IO outside a step, unless the meter's `judge` knows better: branches of a user's function
wait for each other too. A task counts as awake from the moment that a wait of its is resolved, not from when the loop
gets round to it, so "dry" is exact and needs no guessing with the loop's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Literal

from perdure.errors import UserError


class Wait(asyncio.Future[Any]):
    """A wait that only the driver ends."""

    tracked: Tracked | None = None
    """Who waits. Owner: that `Tracked`."""

    def give(self, value: Any) -> None:
        """End the wait with a value."""
        if not self.done():
            self._wake()
            self.set_result(value)

    def throw(self, error: BaseException) -> None:
        """End the wait with an error."""
        if not self.done():
            self._wake()
            self.set_exception(error)

    def cancel(self, msg: Any | None = None) -> bool:
        """End the wait because whoever waits is cancelled, by us or by a branch beside it."""
        if not self.done():
            self._wake()
        return super().cancel(msg)

    def _wake(self) -> None:
        if self.tracked is not None:
            self.tracked.wake()


class _Turn:
    """Lets the loop run what is ready now, at the price of a bare yield."""

    def __await__(self) -> Generator[None]:
        yield


_TURN = _Turn()


class Bell:
    """An event with one waiter at most: several times cheaper than `asyncio.Event`, and this is the hottest path."""

    def __init__(self) -> None:
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """Of its waiters, once there was one: to ask for the running loop takes a system call each time."""

    def ring(self) -> None:
        """Wake the waiter, or the next one."""
        self._rung = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def hush(self) -> None:
        """Forget that it rang. Then look, and only then wait."""
        self._rung = False

    async def heard(self) -> None:
        """Return once it has rung since it was last hushed."""
        if not self._rung:
            self._loop = self._loop or asyncio.get_running_loop()
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None


Nature = Literal["io", "join", "yield"]
"""What a task waits for that is no `Wait`: the world, branches of the same execution, or only its next turn."""

Judge = Callable[["Tracked", object], Nature]
"""Given what a task yielded to the loop. What it raises is thrown into the task instead."""

YIELDS = 100
"""Bare turns in a row after which a task counts as in IO: it polls, and what it polls for may need the driver."""


class Meter:
    """Counts the awake tasks of one execution, and those in real IO. Lives on the executor's loop."""

    def __init__(self, io_over: Callable[[], None] | None = None) -> None:
        """`io_over` is called when the last task in real IO has left it."""
        self.awake = 0
        self.in_io = 0
        self.judge: Judge | None = None
        """Says what a foreign wait is. None: real IO."""
        self.io_over = io_over
        self._dry = Bell()

    def add(self, change: int) -> None:
        self.awake += change
        if self.awake == 0:
            self._dry.ring()

    async def dry(self) -> None:
        """Return when nobody is awake."""
        await _TURN  # mostly enough: what was woken runs before us
        while self.awake:
            self._dry.hush()
            await self._dry.heard()


class Tracked(Coroutine[Any, Any, Any]):
    """A coroutine whose sleeping and waking is counted. Give it to `asyncio.create_task`."""

    def __init__(self, inner: Coroutine[Any, Any, Any], meter: Meter, on_end: Callable[[], None] | None = None) -> None:
        self._inner = inner
        self._meter = meter
        self._on_end = on_end
        self.value: Any = None
        self.error: BaseException | None = None
        """How it ended, readable before the task that runs it knows."""
        self.instead: UserError | None = None
        """Thrown in place of the next cancel, which came from a construct that the log knows nothing of."""
        self._awake = False
        self._io = False
        self._yields = 0
        self.wake()

    def wake(self) -> None:
        """Count it as awake: something it waits for has come."""
        if not self._awake:
            self._awake = True
            self._meter.add(1)
        self._set_io(False)

    def send(self, value: Any) -> Any:
        if not self._awake or self._io:
            self.wake()
        try:
            waits_for = self._inner.send(value)
        except BaseException as end:
            self._ended(end)
            raise
        return self._waits(waits_for)

    def throw(
        self, typ: Any, val: BaseException | object = None, tb: TracebackType | None = None
    ) -> Any:  # signature of collections.abc.Coroutine
        error = typ if isinstance(typ, BaseException) else (val if isinstance(val, BaseException) else typ())
        if self.instead is not None and isinstance(error, asyncio.CancelledError):
            error, self.instead = self.instead, None
        self.wake()
        try:
            waits_for = self._inner.throw(error)
        except BaseException as end:
            self._ended(end)
            raise
        return self._waits(waits_for)

    def close(self) -> None:
        self._inner.close()
        self._sleep(io=False)

    @property
    def inner(self) -> Coroutine[Any, Any, Any]:
        """The coroutine itself."""
        return self._inner

    @property
    def in_io(self) -> bool:
        """Whether it waits for something that neither its driver nor a branch beside it will bring."""
        return self._io

    def __getattr__(self, name: str) -> Any:
        """Show what debuggers and libraries look for: `cr_frame` and its like are the inner coroutine's."""
        if name.startswith("cr_") or name in {"__name__", "__qualname__"}:
            return getattr(self._inner, name)
        raise AttributeError(name)

    def __await__(self) -> Any:  # pragma: no cover - tasks drive it through send
        return self._inner.__await__()

    def _waits(self, waits_for: Any) -> Any:
        if isinstance(waits_for, Wait):
            waits_for.tracked = self
            self._sleep(io=False)
            return waits_for
        return self._waits_elsewhere(waits_for)

    def _waits_elsewhere(self, waits_for: Any) -> Any:
        try:
            nature = self._meter.judge(self, waits_for) if self._meter.judge is not None else "io"
        except UserError as error:
            return self.throw(error)
        self._yields = self._yields + 1 if nature == "yield" else 0
        if nature != "yield" or self._yields > YIELDS:
            self._sleep(io=nature != "join")
        return waits_for

    def _ended(self, end: BaseException) -> None:
        if isinstance(end, StopIteration):
            self.value = end.value
        else:
            self.error = end
        if self._on_end is not None:
            self._on_end()  # before it falls asleep: whoever waits for it wakes first, so nobody sees a false "dry"
        self._sleep(io=False)

    def _sleep(self, *, io: bool) -> None:
        self._set_io(io)
        if self._awake:
            self._awake = False
            self._meter.add(-1)

    def _set_io(self, io: bool) -> None:
        if io != self._io:
            self._io = io
            self._meter.in_io += 1 if io else -1
            if not io and not self._meter.in_io and self._meter.io_over is not None:
                self._meter.io_over()
