"""The composition root: a runtime joins an agent to a server, or to one inside this process, and serves its tools.

Imports everything; only `perdure/__init__.py` and the CLI import it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import wait as until_done
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from perdure.agent.agent import Agent
from perdure.client.discover import key_for, running_server
from perdure.client.found import Found
from perdure.client.functions import HttpFunctionSource
from perdure.client.handle import AgentHandle
from perdure.client.http import HttpApi
from perdure.client.large import start_whole
from perdure.client.outside import Outside
from perdure.client.queues import Queues
from perdure.client.results import AgentResult
from perdure.client.rooms import Rooms
from perdure.client.schedules import Schedules
from perdure.client.secrets import Secrets
from perdure.client.tasks import HttpTaskSource
from perdure.core.tags import checked_tags
from perdure.engine.keys import DEFAULT_COMPANY
from perdure.engine.sweep import LOCAL_WORKER
from perdure.errors import InvalidInput, UserError
from perdure.models.catalog import Catalog
from perdure.models.port import Models
from perdure.server.node import Node
from perdure.service_loop import ServiceLoop
from perdure.shared_store import SharedStore
from perdure.wire import state_file
from perdure.wire.api import Api, TaskSource
from perdure.wire.worker_lock import default_folder
from perdure.worker.declared import Declared, durable_definition, later, start_request
from perdure.worker.function_service import FunctionPlace, FunctionServices
from perdure.worker.functions import FUNCTION_SLOTS
from perdure.worker.loop import TOOL_SLOTS, Worker, WorkerOptions
from perdure.worker.main import tool_worker
from perdure.worker.tool_service import ToolServices

T = TypeVar("T")

_EXIT_THREAD = "perdure-exit"


class AgentRuntime(Outside, Found):
    """Runs agents, serves their tools, and reaches executions by id.

    With `server_url`, or `PERDURE_URL`, it talks to that server. Otherwise to this user's running server, if there is
    one. Otherwise it is a server itself, in this process, over a SQLite file (`store`, or `PERDURE_STORE`, or a file
    in the user's state directory): close it, kill it, and the next one goes on where it was. Of several processes that
    open one file the first owns it and the others join it; when it is gone, one of them takes the file over, and all
    go on with what they have in hand. Models are asked by the owner, whoever that is.

    Use it as `with AgentRuntime() as runtime:`; tools that are `async` then run on a loop of the runtime's own. Under
    `async with` they run on the caller's loop, where its pools and locks work. Every verb has an async twin. No signal
    handler is installed.
    """

    def __init__(
        self,
        server_url: str | None = None,
        *,
        api_key: str | None = None,
        store: str | os.PathLike[str] | None = None,
        models: Models | None = None,
        serve_tools: bool = True,
        slots: int | None = None,
        join: bool = True,
    ) -> None:
        """`serve_tools=False` leaves the tools of `run` and `start` to others. `slots`: tools at once (16), of all
        agents that one `serve` names together, and of each that `run` or `start` brings; and executions at once (100)
        of each durable function, without those that wait.

        `models` answers for models when this process is the server; by default those of the installed extras.
        `join=False` shares the file with no other process: whoever comes second meets `StoreInUse` (`store_in_use`).
        """
        self._url = server_url or os.environ.get("PERDURE_URL")
        self._key = api_key or os.environ.get("PERDURE_API_KEY")
        self._store = store or os.environ.get("PERDURE_STORE")
        self._embedded = store is not None
        self._models = models
        self._serve_tools = serve_tools
        self._slots = _at_least_one(slots, TOOL_SLOTS)
        self._join = join
        self.schedules = Schedules(self, lambda declared, input: start_request(declared, (input,), {}, None))
        """Starts by the calendar: make them, look at them, pause them."""
        self.queues = Queues(self)
        """What waits for workers: look at it, limit it."""
        self.rooms = Rooms(self)
        """Where several companies work together: write and read there."""
        self.secrets = Secrets(self)
        """Keys of models and tools: kept, and never shown."""
        self._lock = threading.RLock()
        """Guards opening and closing: verbs may come from any thread."""
        self._leaving = threading.RLock()
        """Held by whoever closes it, while verbs of tools that run still come."""
        self._service = ServiceLoop("perdure-service")
        self._caller_loop: asyncio.AbstractEventLoop | None = None
        self._api: Api | None = None
        self._source: TaskSource | None = None
        self._shared: SharedStore | None = None
        self._tools = ToolServices(self._service.submit, self._new_worker)
        self._functions = FunctionServices(self._service.submit, self._function_place, slots or FUNCTION_SLOTS)
        self._closed = False

    # -- agents --------------------------------------------------------------------------------------------------------

    async def start_async(
        self,
        declared: Declared,
        *args: Any,
        idempotency_key: str | None = None,
        delay_seconds: float | None = None,
        start_at: datetime | None = None,
        priority: int = 0,
        limit_key: str | None = None,
        tags: Sequence[str] = (),
        **named: Any,
    ) -> AgentHandle:
        """Begin an execution and return at once. When this returns, it survives the death of every process.

        An agent takes one input; a durable function its arguments, as JSON. The same `idempotency_key`, name and input
        again give the first execution; with other input, `Conflict` (`start_key_conflict`). With `delay_seconds`, or
        `start_at` (which names a time zone), it waits that long, never shorter, by the store's clock; a cancel ends it
        before. `priority` (0 to 9) says what goes first, `limit_key` whose it is: keys take turns, and may be limited.
        `tags`: what `executions(tag=)` finds it by; of a start that was made before, its own stay.
        """
        self._ensure_open()
        asked = replace(start_request(declared, args, named, idempotency_key), tags=checked_tags(tags))
        request = later(asked, delay_seconds, start_at, priority=priority, limit_key=limit_key)
        if self._serve_tools:
            self._serve(declared)
        started = await self.join(start_whole(self.api, request))
        return AgentHandle(started.id, self)

    def start(
        self,
        declared: Declared,
        *args: Any,
        idempotency_key: str | None = None,
        delay_seconds: float | None = None,
        start_at: datetime | None = None,
        priority: int = 0,
        limit_key: str | None = None,
        tags: Sequence[str] = (),
        **named: Any,
    ) -> AgentHandle:
        named |= {"delay_seconds": delay_seconds, "start_at": start_at, "priority": priority, "limit_key": limit_key}
        named["tags"] = tags
        return self.wait(self.start_async(declared, *args, idempotency_key=idempotency_key, **named))

    async def run_async(
        self, declared: Declared, *args: Any, idempotency_key: str | None = None, **named: Any
    ) -> AgentResult:
        """Begin an execution and wait until it has ended. Waits for decisions as long as they take."""
        handle = await self.start_async(declared, *args, idempotency_key=idempotency_key, **named)
        return await handle.result_async()

    def run(self, declared: Declared, *args: Any, idempotency_key: str | None = None, **named: Any) -> AgentResult:
        return self.wait(self.run_async(declared, *args, idempotency_key=idempotency_key, **named))

    async def serve_async(self, *declared: Declared, blocking: bool = True) -> None:
        """Run the tools of agents, and durable functions, for executions begun anywhere; if `blocking`, until it is
        cancelled."""
        self._ensure_open()
        self._serve(*declared)
        if blocking:
            await asyncio.Event().wait()

    def serve(self, *declared: Declared, blocking: bool = True) -> None:
        """As `serve_async`; if `blocking`, until Ctrl-C."""
        try:
            self.wait(self.serve_async(*declared, blocking=blocking))
        except KeyboardInterrupt:
            self.close()

    # -- the loop between ----------------------------------------------------------------------------------------------

    @property
    def api(self) -> Api:
        """The verbs, to be awaited on the service loop: give them to `wait` or `join`."""
        self._ensure_open()
        assert self._api is not None
        return self._api

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the service loop and block until it is done."""
        if self._caller_loop is not None and _running_loop() is self._caller_loop:
            work.close()
            raise UserError(
                "a blocking verb was called on the event loop of `async with AgentRuntime()`, which its tools need. "
                "Await the async twin instead: run_async, start_async, get_status_async, …",
                code="use_async",
            )
        self._ensure_open()
        return self._service.wait(work)

    async def join(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the service loop and await it from any other."""
        self._ensure_open()
        return await self._service.join(work)

    # -- life ----------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._ensure_open()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self._caller_loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._ensure_open)
        return self

    async def __aexit__(self, *_error: object) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Let running tools end or hand them back, and leave. Executions stay where they are.

        Safe to call twice: where an interrupt came, the next call goes on, or else the end of the program does. In a
        process that was forked from the one that opened it, nothing: it is the parent's.
        """
        if self._service.left_behind:
            return
        with self._lock:
            self._closed = True
        with self._leaving:
            if self not in _open:
                return
            ended = [*self._tools.stop(), *self._functions.stop()]
            until_done(ended)
            try:
                if self._service.runs and self._api is not None:
                    self._service.wait(_say_goodbye(self._api, self._source))
            finally:  # Ctrl-C or not
                _hang_up(self, self._shared, self._service)
        for done in ended:
            done.result()

    def _ensure_open(self) -> None:
        with self._lock:
            if self._closed:
                raise UserError("this runtime is closed; make a new one.", code="runtime_closed")
            if self._api is None:
                try:
                    _remember(self)
                    self._service.start()
                    self._connect()
                except BaseException:  # Ctrl-C too: nobody has this runtime yet, to close it
                    self._closed = True
                    _hang_up(self, self._shared, self._service)
                    raise

    def _connect(self) -> None:
        if self._url is None and not self._embedded:
            state = self._service.wait(running_server())
            if state is not None:
                self._url, self._key = state.url, self._key or state.key
        if self._url is not None:
            self._key = self._key or self._service.wait(key_for(self._url))
            self._api, self._source = HttpApi(self._url, self._key), HttpTaskSource(self._url, self._key)
            return
        self._shared = SharedStore(self._store or default_store(), self._models or Catalog(), self._service, self._join)
        self._api, self._source = self._shared.open()

    def _serve(self, *declared: Declared) -> None:
        """Have one worker in this process for the tools of all agents that have none yet, and run durable functions."""
        for one in declared:
            if not isinstance(one, Agent):
                self._functions.serve(durable_definition(one))
        self._tools.serve({id(one): one for one in declared if isinstance(one, Agent)}.values())

    def _function_place(self) -> FunctionPlace:
        """Return where durable functions are served now."""
        assert self._source is not None
        if self._shared is not None:
            return self._shared.functions(self._source)
        assert self._url is not None
        return FunctionPlace(partial(HttpFunctionSource, self._url, self._key), self._source, outbox=default_folder())

    def _new_worker(self, agents: Sequence[Agent]) -> Worker:
        assert self._source is not None
        owner = self._shared is not None and self._shared.node is not None
        prefix, outbox = (LOCAL_WORKER, None) if owner else ("", default_folder())
        options = WorkerOptions(slots=self._slots, id_prefix=prefix, tool_loop=self._caller_loop, outbox=outbox)
        return tool_worker(self._source, agents, options)


_open: set[AgentRuntime] = set()
"""Runtimes that are open, or closed half way. Their threads would keep a process alive whose program forgot them."""
_guard = threading.Lock()


async def _say_goodbye(api: Api, source: TaskSource | None) -> None:
    await api.aclose()
    if close := getattr(source, "aclose", None):
        await close()


def _hang_up(runtime: AgentRuntime, shared: SharedStore | None, service: ServiceLoop) -> None:
    """End what the verbs stand on. What an interrupt leaves of that, the next call ends."""
    try:
        if shared is not None:
            shared.close()
    finally:
        service.stop()
    _open.discard(runtime)


def _remember(runtime: AgentRuntime) -> None:
    with _guard:
        if _EXIT_THREAD not in [thread.name for thread in threading.enumerate()]:
            threading.Thread(target=_close_forgotten, name=_EXIT_THREAD).start()
        _open.add(runtime)


def _close_forgotten() -> None:
    """Wait for the end of the program, then close what it left open."""
    threading.main_thread().join()
    _close_open()


def _close_open() -> None:
    for runtime in list(_open):
        runtime.close()


def default_store() -> Path:
    """Return the file that embedded runtimes and servers of this user share."""
    return state_file.home() / "perdure.db"


def local_worker(node: Node, agents: Sequence[Agent]) -> Worker:
    """Return a worker for the tools of `agents` in the process that owns the store. Whoever takes the store over knows
    that it died with its owner."""
    return tool_worker(node.tasks(DEFAULT_COMPANY), agents, WorkerOptions(id_prefix=LOCAL_WORKER))


def _at_least_one(slots: int | None, default: int) -> int:
    if slots is not None and slots < 1:
        raise InvalidInput(f"slots is {slots}; expected at least 1, or None for the default.", code="bad_worker")
    return slots or default


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
