"""Event loops: one in a thread of its own, for code that must go on whatever the caller's thread does, and a program's
only one. The faster kind where it is installed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from perdure.errors import UserError

T = TypeVar("T")


class ServiceLoop:
    """Runs from `start` to `stop`. Owner: the runtime."""

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name)
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._until: asyncio.Event | None = None
        self._pid: int | None = None
        """The process that has the thread."""
        self._broken: BaseException | None = None
        """Why there is no loop."""
        self._over = False
        """Whether it was told to stop, maybe before there was a loop to tell."""

    @property
    def left_behind(self) -> bool:
        """Say whether this process was forked from the one in which the loop runs. No thread is forked with it."""
        return self._pid not in (None, os.getpid())

    @property
    def runs(self) -> bool:
        """Say whether it takes work: it was started, and not told to stop."""
        return not self._over and self._loop is not None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop itself, once started."""
        if self._loop is None:
            raise RuntimeError("this loop was not started")
        return self._loop

    def start(self) -> None:
        """Return when the loop runs. Raises what keeps it from that, as having no file left to open does."""
        self._pid = os.getpid()
        self._thread.start()
        self._started.wait()
        if self._broken is not None:
            raise self._broken

    def stop(self) -> None:
        """Cancel what is left on it and return when the thread has ended. Safe to call twice, where `start` failed, and
        where it was cut off by Ctrl-C: a thread that nobody stops would keep the program from ending.
        """
        self._over = True  # before looking for the loop, as `_serve` makes the loop known before it looks at this
        if self._loop is not None and self._until is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it has just ended
                self._loop.call_soon_threadsafe(self._until.set)
        if self._thread.is_alive():
            self._thread.join()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there, from any thread. Raises `UserError` (`runtime_forked`)."""
        if self.left_behind:
            work.close()
            raise UserError(
                "this runtime was opened before this process was forked, and its threads stayed with the parent. Make "
                "one after the fork, in the process that uses it.",
                code="runtime_forked",
            )
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there and block until it is done. An interrupt of the caller cancels it."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def join(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there and await it from any loop, this one included."""
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(self.submit(work))

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._serve())
        except Exception as error:
            if self._loop is not None:
                raise
            self._broken = error  # `start` raises it
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._until = asyncio.Event()
        self._started.set()
        if not self._over:
            await self._until.wait()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a program's main coroutine in this thread, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the faster event loop where it is installed."""
    try:
        import uvloop  # noqa: PLC0415 - not there on Windows
    except ImportError:
        return None
    return uvloop.new_event_loop
