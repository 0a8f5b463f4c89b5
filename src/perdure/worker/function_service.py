"""Serve durable functions wherever their executions are kept now: a new worker whenever that is another place."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.core.work import FunctionLane
from perdure.flow.durable import DurableDefinition
from perdure.wire.api import TaskSource
from perdure.worker.claimer import Source
from perdure.worker.functions import FUNCTION_SLOTS, FunctionOptions, FunctionWorker
from perdure.worker.pace import first_of


@dataclass(frozen=True, slots=True)
class FunctionPlace:
    """Where executions of durable functions are kept, and how one gets there."""

    open_source: Callable[[], Source]
    alive: TaskSource
    id_prefix: str = ""
    """Of the ids of workers there."""
    outbox: Path | None = None
    """As in `FunctionOptions`."""
    over: asyncio.Event | None = None
    """Set once it is another place. None: it stays."""


class FunctionServices:
    """The durable functions that a runtime serves, each once. Safe from any thread; `submit` runs on its loop."""

    def __init__(
        self,
        submit: Callable[[Coroutine[Any, Any, None]], Future[None]],
        place: Callable[[], FunctionPlace],
        slots: int = FUNCTION_SLOTS,
    ) -> None:
        self._submit = submit
        self._place = place
        self._slots = slots
        self._lock = threading.Lock()
        self._running: dict[FunctionLane, tuple[FunctionService, Future[None]]] = {}

    def serve(self, definition: DurableDefinition) -> None:
        """Have a worker for the function, if there is none."""
        lane = FunctionLane(definition.name, definition.build)
        with self._lock:
            if lane not in self._running:
                service = FunctionService([definition], self._place, self._slots)
                self._running[lane] = (service, self._submit(service.run()))

    def stop(self) -> list[Future[None]]:
        """Ask all to stop, the second time soon; return what ends when they have."""
        with self._lock:
            running = list(self._running.values())
        for service, _ in running:
            service.stop()
        return [done for _, done in running]


class FunctionService:
    """Runs workers, one after another, until `stop`. `run` once; `stop` from any thread."""

    def __init__(
        self,
        definitions: Sequence[DurableDefinition],
        place: Callable[[], FunctionPlace],
        slots: int = FUNCTION_SLOTS,
    ) -> None:
        self._definitions = definitions
        self._place = place
        self._slots = slots
        self._worker: FunctionWorker | None = None
        self._stopping = False

    async def run(self) -> None:
        """Serve until it is stopped."""
        while not self._stopping:
            place = self._place()
            options = FunctionOptions(slots=self._slots, id_prefix=place.id_prefix, outbox=place.outbox)
            worker = self._worker = FunctionWorker(place.open_source, place.alive, self._definitions, options)
            if self._stopping:
                return
            if place.over is None:
                await worker.run()
            else:
                await self._run_until(worker, place.over)

    def stop(self) -> None:
        """Take no more, let what runs park or end for a time, hand back the rest."""
        self._stopping = True
        if self._worker is not None:
            self._worker.stop()

    async def _run_until(self, worker: FunctionWorker, over: asyncio.Event) -> None:
        working = asyncio.ensure_future(worker.run())
        await first_of(over.wait, lambda: asyncio.wait([working]))
        if not working.done() and not self._stopping:
            worker.stop(0)  # nobody there takes its word any more
        await working
