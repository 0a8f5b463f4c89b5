"""Where bodies run: coroutine functions on the tool loop, everything else in threads.

Lives on the worker's loop, which runs no user code. Threads are as many as bodies run at once, and are kept.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from perdure.core.ports import Clock
from perdure.log import get_log
from perdure.mailbox import Mailbox
from perdure.service_loop import loop_factory
from perdure.worker.body import Call, Ended
from perdure.worker.isolated import Isolated
from perdure.worker.judge import Raised, Stopped
from perdure.worker.pace import ends_within

log = get_log(__name__)

T = TypeVar("T")

CLOSE_SECONDS = 2.0
"""How long closing waits for threads that are done with their bodies."""
_LOOP_CLOSED = Raised("tool_loop_closed", "the event loop that async tools should run on is closed")


class Body:
    """A body that runs somewhere else."""

    def __init__(self, ended: asyncio.Future[Ended], cancel: Callable[[], None]) -> None:
        self.ended = ended
        """On the worker's loop."""
        self._cancel = cancel

    def cancel(self) -> None:
        """Stop it if it can be stopped. A thread cannot: it learns from its `ToolContext`."""
        self._cancel()


class Runners:
    """Starts bodies. `tool_loop` is where coroutine functions run; without one, a loop of our own, in a thread."""

    def __init__(self, tool_loop: asyncio.AbstractEventLoop | None, name: str, clock: Clock) -> None:
        self._given, self._name, self._clock = tool_loop, name, clock
        self._own: _OwnLoop | None = None
        self._to_tools: Mailbox | None = None
        self._to_worker: Mailbox | None = None
        self._lock = threading.Lock()
        """Of `_own`, which a thread may be the first to need."""
        self._threads = _Threads(name)
        # Each body gets a copy: what was set where the worker was made is seen, what a body sets is its own.
        self._context = contextvars.copy_context()

    def start(self, call: Call) -> Body:
        """Run `call` in the place it belongs to. Never raises: what prevents it is how the body ends."""
        if call.definition.options.isolated:
            process = call.process or self._isolate(call)
            process.go()
            return Body(process.ended, process.cancel)
        return self._on_loop(call) if call.definition.is_async else self._in_thread(call)

    async def check(self, call: Call) -> Call | Raised:
        """Validate the arguments where the body will run, not here: validators are the user's code, and may block."""
        if call.definition.options.isolated:
            return await self._prepare(call)
        done: asyncio.Future[Call | Raised] = asyncio.get_running_loop().create_future()
        context = self._context.copy()

        def run() -> None:
            _deliver(done, context.run(call.check))

        if not call.definition.is_async:
            self._threads.submit(run)
        elif not _tell(self._tool_loop(), run):
            return _LOOP_CLOSED
        return await done

    async def close(self, *, wait: bool = True) -> None:
        """Let threads and loop end as soon as their bodies have; with `wait`, give them a moment to be gone."""
        ends = [self._threads.close(), *([self._own.close()] if self._own else [])]
        for end in ends if wait else ():
            await ends_within(self._clock, CLOSE_SECONDS, end)

    def _isolate(self, call: Call) -> Isolated:
        loop = asyncio.get_running_loop()
        return Isolated(call, self._name, lambda what: _tell(loop, what))

    async def _prepare(self, call: Call) -> Call | Raised:
        process = self._isolate(call)
        try:
            problem = await process.ready
        except BaseException:
            process.cancel()
            raise
        match problem:
            case None:
                return dataclasses.replace(call, process=process, intent=process.intent)
            case Raised():
                return problem
            case _:
                return Raised("tool_error", "its process ended before the tool had started")

    def _in_thread(self, call: Call) -> Body:
        ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        context = self._context.copy()
        self._threads.submit(lambda: _deliver(ended, context.run(call.in_thread, self._wait)))
        return Body(ended, _nothing)

    def _on_loop(self, call: Call) -> Body:
        to_tools, to_worker = self._mailboxes()
        ended: asyncio.Future[Ended] = to_worker.loop.create_future()
        context = self._context.copy()
        tasks: list[asyncio.Task[Ended]] = []

        def begin() -> None:
            name = f"{self._name} {call.definition.name}"
            task = to_tools.loop.create_task(call.on_loop(), name=name, context=context)
            tasks.append(task)
            task.add_done_callback(lambda task: _resolve(to_worker, ended, _outcome(task)))

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        def stop() -> None:
            to_tools.put(cancel)

        if not to_tools.put(begin):
            ended.set_result(_LOOP_CLOSED)
        return Body(ended, stop)

    def _mailboxes(self) -> tuple[Mailbox, Mailbox]:
        """Return the ways to the tool loop and back. Called on the worker's loop."""
        if self._to_tools is None or self._to_worker is None:
            self._to_tools = Mailbox(self._tool_loop())
            self._to_worker = Mailbox(asyncio.get_running_loop())
        return self._to_tools, self._to_worker

    def _tool_loop(self) -> asyncio.AbstractEventLoop:
        if self._given is not None:
            return self._given
        with self._lock:
            if self._own is None:
                self._own = _OwnLoop(self._name)
            return self._own.loop

    def _wait(self, result: Awaitable[Any]) -> Any:
        """Run, on the tool loop, what a plain function around a coroutine function returned. Blocks its thread."""

        async def run() -> tuple[Any, BaseException | None]:
            try:
                return await result, None
            except BaseException as error:  # noqa: BLE001 - carried to the thread; a loop that sees SystemExit stops
                return None, error

        value, error = asyncio.run_coroutine_threadsafe(run(), self._tool_loop()).result()
        if error is not None:
            raise error
        return value


class _Threads:
    """Threads that wait for the next body. All but their loop belongs to the worker's loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = 0
        """How many are free, or will be as soon as they look."""
        self._alive = 0
        self._born = 0
        self._gone: asyncio.Future[None] | None = None

    def submit(self, work: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        if self._idle:
            self._idle -= 1
        else:
            self._alive += 1
            self._born += 1
            threading.Thread(target=self._serve, args=(loop,), name=f"{self._name} tool {self._born}").start()
        self._work.put(work)

    def close(self) -> asyncio.Future[None]:
        """Let each thread end after the body it runs. The future resolves when all have."""
        self._gone = asyncio.get_running_loop().create_future()
        for _ in range(self._alive):
            self._work.put(None)
        if not self._alive:
            self._gone.set_result(None)
        return self._gone

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # a body's arguments and result need not outlive it while the thread waits
            _tell(loop, self._freed)
        _tell(loop, self._left)

    def _freed(self) -> None:
        self._idle += 1

    def _left(self) -> None:
        self._alive -= 1
        if self._alive == 0 and self._gone is not None and not self._gone.done():
            self._gone.set_result(None)


class _OwnLoop:
    """An event loop in a thread of its own, for async tools of a worker that was given none."""

    def __init__(self, name: str) -> None:
        self.loop = (loop_factory() or asyncio.new_event_loop)()
        self._stop = asyncio.Event()
        self._gone: asyncio.Future[None] | None = None
        threading.Thread(target=self._serve, name=f"{name} tool loop").start()

    def close(self) -> asyncio.Future[None]:
        """Cancel what still runs and end. The future resolves when the thread is through."""
        self._gone = asyncio.get_running_loop().create_future()
        _tell(self.loop, self._stop.set)
        return self._gone

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._until_closed())
        if self._gone is not None:
            _deliver(self._gone, None)

    async def _until_closed(self) -> None:
        await self._stop.wait()


def _resolve(mailbox: Mailbox, future: asyncio.Future[Ended], value: Ended) -> None:
    def resolve() -> None:
        if not future.done():
            future.set_result(value)

    if not mailbox.put(resolve):
        log.debug("worker.result_unheard")


def _outcome(task: asyncio.Task[Ended]) -> Ended:
    cancelled = task.cancelled()  # before its first line: whatever comes later is caught inside
    return Stopped("cancelled before it started") if cancelled else task.result()


def _deliver(future: asyncio.Future[T], value: T) -> None:
    """Resolve a future of another thread's loop."""

    def resolve() -> None:
        if not future.done():
            future.set_result(value)

    if not _tell(future.get_loop(), resolve):
        log.debug("worker.result_unheard")


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> bool:
    """Have `call` run on a loop. Says whether that loop still takes calls."""
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        return False
    return True


def _nothing() -> None:
    return None
