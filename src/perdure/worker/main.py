"""A worker as a process of its own: what to serve, how signals and a dead parent stop it.

Signal handlers only enqueue. The first stops in order, the second hands back at once, the third ends the process.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Protocol

import anyio

from perdure.agent.agent import Agent
from perdure.agent.tool import ToolDefinition
from perdure.core.work import Lane, WorkerInfo
from perdure.errors import InvalidInput
from perdure.system import SystemClock
from perdure.wire.api import TaskSource
from perdure.worker.loop import Worker, WorkerOptions

PARENT_POLL_SECONDS = 0.5
PARENT_DRAIN_SECONDS = 2.0
"""How long bodies may go on after the parent died."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def run_worker(
    source: TaskSource,
    agents: Sequence[Agent],
    options: WorkerOptions | None = None,
    *,
    parent_pid: int | None = None,
    on_connected: Callable[[WorkerInfo], None] | None = None,
) -> int:
    """Serve the tools of `agents` until a signal, or the death of `parent_pid`, stops it. Call it in the main thread.

    `on_connected` is called once, when the source first knows this worker.
    Returns how many bodies could not be stopped: above 0 their threads keep the process, so leave with `os._exit`.
    Raises `InvalidInput` (`bad_worker`) if there is nothing to serve or an agent's name is there twice.
    """
    worker = tool_worker(source, agents, options)
    return await run_workers([worker], parent_pid=parent_pid, on_connected=on_connected)


def tool_worker(source: TaskSource, agents: Sequence[Agent], options: WorkerOptions | None = None) -> Worker:
    """Return a worker for the tools of `agents`, each with its own dependencies. Raises as `run_worker`."""
    options = options or WorkerOptions()
    tools = lanes_of(agents)
    own = {agent.name: agent.dependencies for agent in agents if agent.dependencies is not None}
    options = dataclasses.replace(options, agent_dependencies={**own, **options.agent_dependencies})
    return Worker(source, tools, options)


class Serving(Protocol):
    """A worker, for tools or for durable functions."""

    info: WorkerInfo
    left_running: int

    async def run(self) -> None: ...
    async def connected(self) -> None: ...
    def stop(self, drain_seconds: float | None = None) -> None: ...


async def run_workers(
    workers: Sequence[Serving],
    *,
    parent_pid: int | None = None,
    on_connected: Callable[[WorkerInfo], None] | None = None,
) -> int:
    """As `run_worker`, for workers that are there already; `on_connected` is called for each."""
    async with anyio.create_task_group() as side:
        with _signals() as arrived:
            side.start_soon(_obey, workers, arrived)
            if parent_pid is not None:
                side.start_soon(_outlive_nobody, workers, parent_pid)
            if on_connected is not None:
                side.start_soon(_tell_all, workers, on_connected)
            await _run_all(workers)
        side.cancel_scope.cancel()
    return sum(worker.left_running for worker in workers)


def lanes_of(agents: Sequence[Agent]) -> dict[Lane, ToolDefinition]:
    """Return all tools of `agents` by the address of their tasks. Raises `InvalidInput` (`bad_worker`)."""
    names = [agent.name for agent in agents]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInput(
            f"two agents are called {twice[0]!r}: a task for one could reach the other's tools. Rename one.",
            code="bad_worker",
        )
    tools = {lane: tool for agent in agents for lane, tool in agent.lanes().items()}
    if not tools:
        raise InvalidInput(
            f"nothing to serve: {', '.join(map(repr, names)) or 'no agent'} has no tools. "
            "An agent without tools runs on the server alone and needs no worker.",
            code="bad_worker",
        )
    return tools


async def _run_all(workers: Sequence[Serving]) -> None:
    async with anyio.create_task_group() as work:
        for worker in workers:
            work.start_soon(worker.run)


@contextmanager
def _signals() -> Generator[asyncio.Queue[int]]:
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[int] = asyncio.Queue()
    undo: list[Callable[[], object]] = []
    for number in SIGNALS:
        try:
            loop.add_signal_handler(number, arrived.put_nowait, number)
            undo.append(lambda number=number: loop.remove_signal_handler(number))
        except NotImplementedError:  # Windows
            before = signal.signal(number, lambda got, _: _from_handler(loop, arrived, got))
            undo.append(lambda number=number, before=before: signal.signal(number, before))
    try:
        yield arrived
    finally:
        for step in undo:
            step()


def _from_handler(loop: asyncio.AbstractEventLoop, arrived: asyncio.Queue[int], number: int) -> None:
    loop.call_soon_threadsafe(arrived.put_nowait, number)


async def _obey(workers: Sequence[Serving], arrived: asyncio.Queue[int]) -> None:
    await arrived.get()
    for worker in workers:
        worker.stop()
    await arrived.get()
    for worker in workers:
        worker.stop(0)
    os._exit(128 + await arrived.get())


async def _tell_all(workers: Sequence[Serving], on_connected: Callable[[WorkerInfo], None]) -> None:
    async with anyio.create_task_group() as telling:
        for worker in workers:
            telling.start_soon(_tell, worker, on_connected)


async def _tell(worker: Serving, on_connected: Callable[[WorkerInfo], None]) -> None:
    await worker.connected()
    on_connected(worker.info)


async def _outlive_nobody(workers: Sequence[Serving], parent_pid: int) -> None:
    clock = SystemClock()
    while os.getppid() == parent_pid:
        await clock.sleep(PARENT_POLL_SECONDS)
    for worker in workers:
        worker.stop(PARENT_DRAIN_SECONDS)
