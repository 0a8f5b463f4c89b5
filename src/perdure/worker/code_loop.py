"""The event loop that durable code runs on. A port: by default a thread of its own, so that no code keeps a lease from
being renewed; a simulation runs it on the only loop there is.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from perdure.core.ports import Clock
from perdure.flow.scope import scoped_tasks
from perdure.service_loop import ServiceLoop
from perdure.worker.pace import first_of
from perdure.worker.shutdown import SETTLE_SECONDS

T = TypeVar("T")


class CodeLoop(Protocol):
    """Runs from `start` to `end`. Tasks that durable code starts on it are its branches."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop itself, once started."""
        ...

    def start(self) -> None:
        """Return when it takes work."""
        ...

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there, from any thread."""
        ...

    async def join(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there and await it here."""
        ...

    async def end(self, clock: Clock) -> bool:
        """End it; say whether it is gone, or threads of its bodies keep it."""
        ...


class ThreadedCodeLoop(ServiceLoop):
    """`CodeLoop` in a thread of its own."""

    def __init__(self) -> None:
        super().__init__("perdure functions")

    def start(self) -> None:
        super().start()
        self.loop.call_soon_threadsafe(scoped_tasks, self.loop)

    async def end(self, clock: Clock) -> bool:
        home, ended = asyncio.get_running_loop(), asyncio.Event()

        def end() -> None:
            self.stop()
            with contextlib.suppress(RuntimeError):  # nobody waited for it
                home.call_soon_threadsafe(ended.set)

        threading.Thread(target=end, name="perdure functions' end").start()
        await first_of(ended.wait, lambda: clock.sleep(SETTLE_SECONDS))
        return ended.is_set()
