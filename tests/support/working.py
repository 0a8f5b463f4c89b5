"""Have a worker at work around a few lines of test."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from perdure.agent.tool import definition_of
from perdure.core.ports import Clock
from perdure.core.work import Lane
from perdure.testing.clock import SeededRandom
from perdure.wire.api import TaskSource
from perdure.worker.loop import Worker, WorkerOptions


def make_worker(source: TaskSource, clock: Clock, *tools: Callable[..., Any], **options: Any) -> Worker:
    """Return a worker that serves `tools` for the agent called `agent`."""
    definitions = [definition_of(tool) for tool in tools]
    lanes = {Lane("agent", one.name, one.options.queue): one for one in definitions}
    return Worker(source, lanes, WorkerOptions(**options), clock=clock, random=SeededRandom(1))


@asynccontextmanager
async def at_work(worker: Worker, *gates: threading.Event) -> AsyncIterator[Worker]:
    """Run `worker`, connected, until the block ends; then stop it without waiting for bodies.

    If the block fails, `gates` are opened: threads that wait for them must not keep the test process.
    """
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        await worker.connected()
        try:
            yield worker
        except BaseException:
            for gate in gates:
                gate.set()
            group.cancel_scope.cancel()  # on a fake clock, stopping would wait for ever
            raise
        worker.stop(0)
