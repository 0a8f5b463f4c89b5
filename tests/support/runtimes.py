"""A runtime over the store at a place. On a file it is the server itself; on a database, which programs do not open, it
is the client of a server that lives as long as it does. Its verbs mean the same.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from http_server import open_node
from perdure import AgentRuntime
from perdure.models.port import Models
from perdure.server.options import ServeOptions
from perdure.server.serve import Ready, serve
from perdure.service_loop import ServiceLoop
from which_store import kind, store_at


def runtime_at(place: Path, *, models: Models | None = None, **options: Any) -> AgentRuntime:
    """Return a runtime over the store at a place. `options`: as `AgentRuntime` takes them."""
    if kind() == "sqlite":
        return AgentRuntime(store=store_at(place), models=models, **options)
    return _Served(_Server(place, models), **options)


class _Served(AgentRuntime):
    """A client of a server of its own."""

    def __init__(self, server: _Server, **options: Any) -> None:
        self._server = server
        super().__init__(server.ready.url, api_key=server.ready.key, **options)

    def close(self) -> None:
        super().close()
        self._server.stop()


class _Server:
    """A server on a loop of its own, from the beginning until `stop`."""

    def __init__(self, place: Path, models: Models | None) -> None:
        self._left = False
        self._node = open_node(place, models)
        self._loop = ServiceLoop("test-server")
        self._loop.start()
        self._stop = asyncio.Event()
        found: Future[Ready] = Future()
        options = ServeOptions(port=0, drain_seconds=2.0)
        self._served = self._loop.submit(serve(self._node, options, on_ready=found.set_result, stop=self._stop))
        self._served.add_done_callback(lambda done: None if found.done() else found.set_exception(_why(done)))
        self.ready = found.result()

    def stop(self) -> None:
        """Leave in order. Safe to call twice."""
        if self._left:
            return
        self._left = True
        self._loop.loop.call_soon_threadsafe(self._stop.set)
        try:
            self._served.result()
        finally:
            self._loop.stop()
            self._node.stop()


def _why(ended: Future[None]) -> BaseException:
    return ended.exception() or RuntimeError("the server ended before it was ready")
