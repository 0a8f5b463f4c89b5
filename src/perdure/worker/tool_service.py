"""Serve the tools of agents in this process: one worker for those that are named together, and no agent twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from perdure.agent.agent import Agent
from perdure.worker.loop import Worker


class ToolServices:
    """The workers of a runtime. Safe from any thread; `submit` runs on its loop."""

    def __init__(
        self,
        submit: Callable[[Coroutine[Any, Any, None]], Future[None]],
        new_worker: Callable[[Sequence[Agent]], Worker],
    ) -> None:
        self._submit = submit
        self._new_worker = new_worker
        self._lock = threading.Lock()
        self._running: dict[str, tuple[Worker, Future[None]]] = {}
        """By agent; those that are served together have one."""

    def serve(self, agents: Iterable[Agent]) -> None:
        """Have one worker for the tools of all agents that have none yet."""
        with self._lock:
            new = [agent for agent in agents if agent.lanes() and agent.name not in self._running]
            if new:
                worker = self._new_worker(new)
                self._running |= dict.fromkeys((agent.name for agent in new), (worker, self._submit(worker.run())))

    def stop(self) -> list[Future[None]]:
        """Ask all to stop, the second time soon; return what ends when they have."""
        with self._lock:
            running = dict(self._running.values())
        for worker in running:
            worker.stop()
        return list(running.values())
