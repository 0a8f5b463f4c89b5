"""Several processes in one simulation: each can be killed or stopped at any instant, and the seed says who runs next.

A process is a mark in the context of its tasks, timers and callbacks. What bears the mark of a dead one is never run
again, not even to clean up; what bears that of a stopped one waits until it goes on. Within one process callbacks keep
the order of asyncio, which code may rely on; those of several processes are mixed.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import random
import sys
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any, ClassVar, Self, TypeVar, cast

from anyio._backends import _asyncio as anyio_asyncio

from perdure.flow.meter import Tracked
from perdure.flow.scope import HERE, Scope
from perdure.testing.simulation import Outcome, SimLoop, Standstill, closed

T = TypeVar("T")

MOST_COLLECTIONS = 10

PROCESS: ContextVar[Process | None] = ContextVar("simulated_process", default=None)


class Killed(BaseException):
    """Unwinds the callback in which its process was killed."""


class Process:
    """One process. Owner: the loop."""

    def __init__(self, loop: ProcessLoop, name: str) -> None:
        self.name = name
        self.alive = True
        self.stopped = False
        self.held: list[asyncio.Handle] = []
        """What became ready while it was stopped, or after its end: kept, so that nothing of it is ever cleaned up."""
        self.on_end: list[Callable[[], None]] = []
        self._loop = loop
        self._tasks: set[asyncio.Task[Any]] = set()
        self._context = copy_context()
        self._context.run(PROCESS.set, self)

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine in it."""
        task = self._loop.create_task(work, name=self.name, context=self._context.copy())
        self._tasks.add(task)
        return task

    def call(self, what: Callable[[], object]) -> None:
        """Have a callback run in it soon, as a signal's handler does."""
        self._loop.call_soon(what, context=self._context.copy())

    def kill(self) -> None:
        """End it, at this instant."""
        if self.alive:
            self.alive = False
            for tell in self.on_end:
                tell()

    def stop(self) -> None:
        """Let it run no further until `go_on`."""
        self.stopped = True

    def go_on(self) -> None:
        """Let it run again, with all that came meanwhile."""
        self.stopped = False
        if self.alive:
            held, self.held = self.held, []
            self._loop.ready_again(held)

    @property
    def running(self) -> bool:
        return self.alive and not self.stopped


class NumberedTask(asyncio.Task[T]):
    """A task whose place in a set does not depend on where it lies in memory."""

    numbers: ClassVar[Iterator[int]] = count(1)
    """Of the loop that runs now."""
    number: int

    def __new__(cls, *args: Any, **options: Any) -> Self:
        # Before it is made: it is put into a set at once, where all without a number would be in each other's way.
        task = super().__new__(cls)
        task.number = next(cls.numbers)
        return task

    def __hash__(self) -> int:
        return self.number


class ProcessLoop(SimLoop):
    """`SimLoop` that knows processes. `set_task_factory` is for branches of durable functions alone."""

    # asyncio's own, as in `SimLoop`.
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self, seed: int, max_rounds: int) -> None:
        super().__init__(seed, max_rounds)
        self._mixer = random.Random(seed)
        NumberedTask.numbers = count(1)
        self._branches: Any = None
        self._runs = 0

    def set_task_factory(self, factory: Any) -> None:
        self._branches = factory

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **more: Any
    ) -> asyncio.Task[Any]:
        here = HERE.get() if context is None else context.get(HERE)
        if self._branches is not None and (isinstance(coro, Tracked) or isinstance(here, Scope)):
            task = self._branches(self, coro) if context is None else self._branches(self, coro, context=context)
        else:
            task = NumberedTask(coro, loop=self, name=name, context=context)
        return task

    def ready_again(self, handles: list[asyncio.Handle]) -> None:
        """Have these run in the next round."""
        self._ready.extend(handles)

    def note(self, fact: str) -> None:
        """Make a fact part of the run's fingerprint."""
        self._trace.update(fact.encode())

    def _run_once(self) -> None:
        self.rounds += 1
        if self.rounds > self._max_rounds:
            raise Standstill(f"still turning after {self._max_rounds:,} rounds, at {self.time():,.0f} virtual seconds")
        self._advance()
        batch = list(self._ready)
        self._ready.clear()
        owners = [cast("Any", handle)._context.get(PROCESS) for handle in batch]
        if len(set(map(id, owners))) == 1:
            self.note(f"{self.time():.6f} {len(batch)} of {owners[0] and owners[0].name}\n")
            for handle in batch:
                self._run(handle, owners[0])
        else:
            self._mix(batch, owners)

    def _advance(self) -> None:
        timers = self._scheduled
        while timers and timers[0].cancelled():
            heapq.heappop(timers)
        if not self._ready and timers:
            self._selector.now = max(self._selector.now, timers[0].when())
        elif not self._ready and not self._stopping:
            raise Standstill("every task waits for another and no timer is set")
        while timers and timers[0].when() <= self._selector.now:
            self._ready.append(heapq.heappop(timers))

    def _mix(self, batch: list[asyncio.Handle], owners: list[Process | None]) -> None:
        queues: dict[Process | None, deque[asyncio.Handle]] = {}
        for handle, owner in zip(batch, owners, strict=True):
            queues.setdefault(owner, deque()).append(handle)
        order = list(queues)
        while order:
            owner = order[self._mixer.randrange(len(order))]
            queue = queues[owner]
            self.note(f"{self.time():.6f} {owner and owner.name}\n")
            self._run(queue.popleft(), owner)
            if not queue:
                order.remove(owner)

    def _run(self, handle: asyncio.Handle, owner: Process | None) -> None:
        if owner is not None and not owner.running:
            owner.held.append(handle)
        elif not handle.cancelled():
            cast("Any", handle)._run()


def run_processes(seed: int, main: Callable[[ProcessLoop], Coroutine[Any, Any, T]], max_rounds: int) -> Outcome[T]:
    """Run `main(loop)` to its end. What its processes left is thrown away, not ended: nobody hears their last words.

    Raises as `run_simulation`. Garbage is not collected meanwhile, as its finalisers would run when memory is short,
    which no seed decides.
    """
    loop = ProcessLoop(seed, max_rounds)
    loop.set_exception_handler(_say_nothing)
    collecting = gc.isenabled()
    gc.disable()
    gc.freeze()  # what is there already need not be looked through at the end
    try:
        with _numbered_scopes():
            try:
                value = _run_to_its_end(loop, main, seed)
            finally:
                outcome = (loop.trace, loop.time(), loop.rounds)
                _throw_away(loop)
    finally:
        gc.unfreeze()
        if collecting:
            gc.enable()
    return Outcome(value, *outcome)


def _run_to_its_end(loop: ProcessLoop, main: Callable[[ProcessLoop], Coroutine[Any, Any, T]], seed: int) -> T:
    asyncio.set_event_loop(loop)
    try:
        with closed(loop):
            value = loop.run_until_complete(main(loop))
        if loop.escape:
            raise loop.escape
    except BaseException as error:
        error.add_note(f"simulation seed {seed}, at {loop.time():,.3f} virtual seconds")
        raise
    finally:
        asyncio.set_event_loop(None)
    return value


@contextmanager
def _numbered_scopes() -> Generator[None]:
    """Have sets of anyio's cancel scopes, too, be in an order that does not depend on where they lie in memory."""
    scopes: Any = anyio_asyncio.CancelScope
    original, numbers, counter = scopes.__init__, dict[int, int](), count(1)

    def init(self: Any, *args: Any, **options: Any) -> None:
        numbers[id(self)] = next(counter)
        original(self, *args, **options)

    scopes.__init__ = init
    scopes.__hash__ = lambda self: numbers.get(id(self), 0)
    try:
        yield
    finally:
        scopes.__init__ = original
        scopes.__hash__ = object.__hash__


def _throw_away(loop: ProcessLoop) -> None:
    """Close the loop and all that lives on it, without a word about what was not finished."""
    say, sys.unraisablehook = sys.unraisablehook, lambda _what: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loop.close()
            _collect(loop)
    finally:
        sys.unraisablehook = say


def _collect(loop: ProcessLoop) -> None:
    states: Any = anyio_asyncio._task_states  # keeps tasks whose scopes are still open for ever
    for task in [task for task in states if task.get_loop() is loop]:
        del states[task]
    for _ in range(MOST_COLLECTIONS):
        if not gc.collect():  # what is thrown away may leave something behind that is to be thrown away
            return


def _say_nothing(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Errors that nobody awaited: tasks that die with their process have many. Escapes are kept by the loop."""
    if isinstance(error := context.get("exception"), (KeyboardInterrupt, SystemExit)):
        raise error
