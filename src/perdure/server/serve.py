"""Serve a backend on a socket until a signal, then leave in order. When `serve` returns, everything of it has ended.

Leaving: take no more, tell the backend, end the streams, let requests finish for `drain_seconds`, close what is left.
A second signal closes at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, cast

import uvicorn

from perdure.core.ports import Clock, Random
from perdure.errors import UserError
from perdure.log import get_log
from perdure.server.app import App
from perdure.server.auth import ADMIN, AdminKey, Gate, admin_key
from perdure.server.backend import Backend
from perdure.server.connection import WatchedProtocol, protocol_for
from perdure.server.crash_demo import CrashDemo
from perdure.server.cross_origin import cross_origin
from perdure.server.listen import bind, room_for, url_of
from perdure.server.logins import new_link
from perdure.server.options import ServeOptions
from perdure.system import SystemClock, SystemRandom
from perdure.wire import state_file
from perdure.wire.state_file import ServerState

log = get_log("perdure.serve")

_TICKS_PER_LOOK = 10
"""The server ticks ten times a second; connections are looked at once."""
_NO_KEY = AdminKey("", is_new=False)


@dataclass(frozen=True, slots=True)
class Ready:
    """What is true once the server answers."""

    url: str
    key: str
    """The admin key; empty without `auth`."""
    key_is_new: bool
    """Show it: this is the only time."""
    login: str = ""
    """Where a browser signs in, once, within ten minutes; empty without `auth`."""


async def serve(
    backend: Backend,
    options: ServeOptions,
    *,
    on_ready: Callable[[Ready], None],
    stop: asyncio.Event | None = None,
    clock: Clock | None = None,
    random: Random | None = None,
    demo: CrashDemo | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or `stop`. The backend is open, and its owner closes it and `demo` afterwards.

    Raises `UserError` (`port_in_use`, `unsafe_bind`, `cannot_bind`, `state_file_refused`) before anything is served,
    and the backend's `StoreFailed`, after leaving in order, if its store failed. Signals reach it only on the main
    thread.
    """
    with contextlib.closing(bind(options)) as listener:
        url = url_of(listener)
        random = random or SystemRandom()
        key = await _key(backend, options, random)
        login = (options.public_url or url) + (await new_link(backend, ADMIN, random)).path if options.auth else ""
        app = App(backend, options, clock=clock or SystemClock(), random=random, demo=demo)
        server = _Server(backend, options, app)

        def started() -> None:
            _write_state(backend, options, url, key)
            if not options.auth:
                log.warning("server.open_to_everybody", url=url, do="start it without --insecure-no-auth")
            on_ready(Ready(url, key.key, key.is_new, login))

        try:
            with _signals_call(server.leave):
                await server.run_until(stop, listener, started)
        finally:
            _withdraw_state(backend, options)
    if backend.failure is not None:
        raise backend.failure


async def serve_at(
    listener: socket.socket, backend: Backend, options: ServeOptions, *, stop: asyncio.Event, gate: Gate
) -> None:
    """Serve on a socket that listens already, until `stop`. For a program that is more than a server: no signal is
    touched, no state file is written, and `gate` alone says who asks. Raises the backend's `StoreFailed`."""
    server = _Server(backend, options, App(backend, options, clock=SystemClock(), gate=gate))
    await server.run_until(stop, listener, lambda: None)
    if backend.failure is not None:
        raise backend.failure


class _Server(uvicorn.Server):
    """uvicorn's accept loop, with connections that are watched and an end that has a bound."""

    def __init__(self, backend: Backend, options: ServeOptions, app: App) -> None:
        super().__init__(_config(app, options))
        self._backend = backend
        self._app = app
        self._stop: asyncio.Event | None = None

    async def run_until(self, stop: asyncio.Event | None, listener: socket.socket, started: Callable[[], None]) -> None:
        """Serve until `stop`, `leave` or the backend's failure."""
        self._stop = stop
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup([listener])
        try:
            started()
            await self.main_loop()
        finally:
            await self.shutdown([listener])

    def leave(self) -> None:
        """Begin to leave; the second time, close everything at once."""
        if self.should_exit:
            self.force_exit = True
            self._abort()
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections, and say whether to leave."""
        leave = await super().on_tick(counter)
        if counter % _TICKS_PER_LOOK == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                cast("WatchedProtocol", connection).look(now)
        return leave or self._backend.failure is not None or (self._stop is not None and self._stop.is_set())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Leave. Bounded by `drain_seconds`, whatever clients do."""
        log.info("server.stopping", drain_seconds=self.config.timeout_graceful_shutdown, again="ends at once")
        self.should_exit = True  # a signal from here on is the second one
        self._backend.drain()
        self._app.drain()
        await super().shutdown(sockets)
        self._abort()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=1.0)

    def _abort(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def _config(app: App, options: ServeOptions) -> uvicorn.Config:
    config = uvicorn.Config(
        cast("Any", cross_origin(cast("Any", app), options.origins)),
        http=protocol_for(room_for(options.limits)),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="critical",  # what goes wrong is logged by `App`, once
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[("x-content-type-options", "nosniff")],
        timeout_keep_alive=int(options.limits.idle_seconds),
    )
    config.timeout_graceful_shutdown = cast("int", options.drain_seconds)  # it may be a fraction
    return config


async def _key(backend: Backend, options: ServeOptions, random: Random) -> AdminKey:
    if not options.auth:
        return _NO_KEY
    if options.state_file is None:
        return await admin_key(backend, random, None)
    first = options.state_file.with_name(state_file.path_of(backend.info().store).name)
    return await admin_key(backend, random, state_file.read(options.state_file) or state_file.read(first))


def _write_state(backend: Backend, options: ServeOptions, url: str, key: AdminKey) -> None:
    if options.state_file is None:
        return
    info = backend.info()
    try:
        state_file.write(options.state_file, ServerState.of_this_process(url, key.key, info.nonce, info.store))
    except OSError as error:  # a read-only home is no reason not to serve
        log.warning("server.no_state_file", error=str(error), action="give clients the address and the key yourself")


def _withdraw_state(backend: Backend, options: ServeOptions) -> None:
    if options.state_file is None:
        return
    try:
        state_file.withdraw(options.state_file, backend.info().nonce)
    except (OSError, UserError) as error:  # somebody removed or replaced it meanwhile: it is theirs now
        log.warning("server.state_file_left", error=str(error), action="remove it if no server runs")


@contextlib.contextmanager
def _signals_call(leave: Callable[[], None]) -> Generator[None]:
    """Signal handlers only call the loop, on the loop; what was installed before is not brought back."""
    taken: list[signal.Signals] = []
    loop = asyncio.get_running_loop()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows: Ctrl+C ends the loop as usual
                loop.add_signal_handler(number, leave)
                taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
