"""The HTTP application: guard, gate, body, route, in this order and for every request.

An ASGI application over a `Backend` (backend.py). It owns no socket, store or thread: `serve.py` gives it a socket.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from perdure.core.ports import Clock, Random
from perdure.errors import InternalError, PerdureError, Retryable, UserError
from perdure.log import get_log
from perdure.server import guard, openapi
from perdure.server.a2a_door import A2aDoor, is_a2a
from perdure.server.auth import Gate, KeyGate, OpenGate
from perdure.server.backend import Backend
from perdure.server.call import CALL, Call
from perdure.server.crash_demo import CrashDemo
from perdure.server.guard import ClientGone, Guard, Head
from perdure.server.logins import Logins, new_link
from perdure.server.mcp_door import McpDoor
from perdure.server.open_hooks import OpenHooks, hook_secret_in, shown
from perdure.server.open_tokens import OpenTokens, secret_in
from perdure.server.options import ServeOptions
from perdure.server.pages import pages, send_page
from perdure.server.reply import error_headers, send_error, send_json
from perdure.server.routes import a2a, blobs, companies, control, demo, hooks, room_files, rooms, screen
from perdure.server.routes.functions import WORKER_OPERATIONS
from perdure.server.stream import Streams
from perdure.system import SystemClock, SystemRandom
from perdure.wire import codec, routes, strict
from perdure.wire.errors import dump_error, status_of
from perdure.wire.state_file import proof

log = get_log("perdure.http")

_NOBODY = 499
"""The status of a reply that nobody is there to read."""


class App:
    """Answers every request, also the ones that nobody should send. Make it on the loop that it runs on."""

    def __init__(
        self,
        backend: Backend,
        options: ServeOptions | None = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        gate: Gate | None = None,
        demo: CrashDemo | None = None,
    ) -> None:
        """`gate` says who asks; by default the store's keys and the sessions of browsers do, or nobody where `options`
        ask for none. `demo`: what is played for whoever runs the server."""
        options = options or ServeOptions()
        self._backend = backend
        self._limits = options.limits
        self._guard = Guard(options)
        self._random = random or SystemRandom()
        self._logins = Logins(backend, self._random, public_url=options.public_url)
        self._keys = KeyGate(backend, self._logins.session_in)
        self._gate: Gate = gate or (self._keys if options.auth else OpenGate())
        clock = clock or SystemClock()
        self._streams = Streams(clock, options.beat_seconds)
        self._tokens = OpenTokens(backend, clock)
        self._hooks = OpenHooks(backend, clock)
        self._mcp = McpDoor()
        self._a2a = A2aDoor(backend, options.public_url)
        self._demo = demo
        self._control = control_app(backend.info().version)

    def drain(self) -> None:
        """End event streams, waiting leases and liveness connections; refuse what comes after."""
        self._streams.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Never raises: what goes wrong is answered, or logged once."""
        if scope["type"] != "http":
            raise RuntimeError(f"this application speaks HTTP, not {scope['type']}")
        progress = _Progress(send)
        try:
            await self._answer(scope, receive, progress)
        except PerdureError as error:
            await send_error(send, error)
        except ClientGone:
            return
        except Exception as error:
            log.exception("http.failed", method=scope["method"], path=shown(scope["path"]), error=type(error).__name__)
            if not progress.started:
                await send_error(send, _internal())

    async def _answer(self, scope: Scope, receive: Receive, progress: _Progress) -> None:
        head = self._guard.admit(scope["headers"])
        path: str = scope["path"]
        if path in routes.OPEN and scope["method"] in ("GET", "HEAD"):
            await self._answer_open(path, head, progress)
            return
        if secret := secret_in(path):
            await self._tokens.answer(secret, scope, head, receive, progress)
            return
        if secret := hook_secret_in(path):
            await self._hooks.answer(secret, scope, head, receive, progress)
            return
        if scope["method"] in ("GET", "HEAD") and (page := pages().find(path)):
            await send_page(page, scope, progress)
            return
        if b"cookie" in head and b"authorization" not in head:
            guard.check_page(scope["method"], head)
        if path == routes.SESSION and scope["method"] in ("POST", "DELETE"):
            await self._sign(scope["method"], head, receive, progress)
            return
        call = await self._call(scope["method"], path, head, receive, progress)
        if path == routes.MCP:
            if scope["method"] != "POST":
                raise _wrong_method(scope["method"], path, "POST")
            await self._mcp.answer(call, scope)
            return
        if is_a2a(path):
            await self._a2a.answer(call, scope)
            return
        operation = WORKER_OPERATIONS.get(path)
        if operation is None:
            scope[CALL] = call
            await self._control(scope, receive, progress)
            return
        if scope["method"] != "POST":
            raise _wrong_method(scope["method"], path, "POST")
        reply = await operation.run(call, codec.read(operation.takes, call.body))
        if reply is not None:
            await send_json(progress, reply)

    async def _call(self, method: str, path: str, head: Head, receive: Receive, send: Send) -> Call:
        """Let a request in, and read it."""
        principal = await self._gate.admit(head)
        self._must_accept()
        most = guard.check_body(method, path, head)
        raw = await guard.read_body(receive, most) if most else b""
        known_by = "key" if b"authorization" in head else "session"
        return Call(
            principal=principal,
            api=self._backend.api(principal.company),
            tasks=self._backend.tasks(principal.company),
            functions=self._backend.functions(principal.company),
            head=head,
            raw=raw,
            body=strict.parse(raw) if raw and not guard.is_piece(method, path) else None,
            streams=self._streams,
            limits=self._limits,
            receive=receive,
            send=send,
            changes=self._backend.changes(principal.company),
            known_by="nothing" if isinstance(self._gate, OpenGate) else known_by,
            new_link=partial(new_link, self._backend, principal, self._random),
            demo=self._demo,
        )

    async def _sign(self, method: str, head: Head, receive: Receive, send: Send) -> None:
        """Sign a browser in or out: the only changes that need no key."""
        self._must_accept()
        if method == "POST":
            await self._logins.redeem(head, receive, send)
            return
        if session := self._logins.session_in(head):
            self._keys.forget(session)
        await self._logins.end(head, send)

    def _must_accept(self) -> None:
        if not self._backend.accepting:
            raise Retryable("The server is going down; it will be back, or another one is there.", code="draining")

    async def _answer_open(self, path: str, head: Head, send: Send) -> None:
        if path == routes.READY:
            if not (self._backend.accepting and self._backend.ready()):
                raise Retryable(
                    "The server is not ready for requests: it is starting or going down, or its store does not answer.",
                    code="not_ready",
                )
            await send_json(send, {"status": "ready"})
            return
        challenge = head.get(routes.CHALLENGE.encode())
        found = {"status": "ok"}
        if challenge is not None:
            found["proof"] = proof(self._backend.info().nonce, challenge.decode("latin-1")[:200])
        await send_json(send, found)


class _Progress:
    """`send`, and whether a reply has begun: what may still be said when something goes wrong."""

    __slots__ = ("_send", "started")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        self.started = True
        await self._send(message)


@cache
def control_app(version: str) -> FastAPI:
    """Return the routes of the control API and their description. Needs the call that `App` puts into the scope, and
    keeps nothing else, so all servers of a process share it."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.include_router(screen.router)  # first: /v1/executions/counts is no execution
    app.include_router(control.router)
    app.include_router(rooms.router)
    app.include_router(blobs.router)
    app.include_router(room_files.router)
    app.include_router(companies.router)
    app.include_router(a2a.router)
    app.include_router(hooks.router)
    app.include_router(demo.router)
    described: list[bytes] = []

    async def description(request: Request) -> Response:
        if not described:
            described.append(codec.dump(openapi.describe(app, version)))
        return Response(described[0], media_type="application/json")

    app.add_route(routes.OPENAPI, description, methods=["GET"], include_in_schema=False)
    app.add_exception_handler(PerdureError, _answer_error)
    app.add_exception_handler(ClientGone, _answer_nobody)
    app.add_exception_handler(RequestValidationError, _answer_misfit)
    app.add_exception_handler(HTTPException, _answer_no_route)
    app.add_exception_handler(Exception, _answer_bug)
    return app


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, PerdureError)
    return _error_response(error)


async def _answer_nobody(request: Request, error: Exception) -> Response:
    return Response(status_code=_NOBODY)


async def _answer_misfit(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found: list[dict[str, Any]] = [dict(item) for item in error.errors()]
    return _error_response(codec.misfit([(codec.field_name(tuple(item["loc"])), item["msg"]) for item in found]))


async def _answer_no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get("allow") or (error.headers or {}).get("Allow")
    if error.status_code == 405:
        return _error_response(_wrong_method(request.method, request.url.path, allowed or "another method"))
    return _error_response(
        UserError(
            f"There is no route {request.method} {request.url.path[:200]}. {routes.OPENAPI} lists them all.",
            code="no_such_route",
        )
    )


async def _answer_bug(request: Request, error: Exception) -> Response:
    return _error_response(_internal())  # `App` logs it: the framework raises it again after this


def _error_response(error: PerdureError) -> Response:
    reply = Response(dump_error(error), status_of(error), media_type="application/json")
    reply.raw_headers.extend(error_headers(error))
    return reply


def _wrong_method(method: str, path: str, allowed: str) -> UserError:
    return UserError(f"{path[:200]} does not take {method}; it takes {allowed}.", code="method_not_allowed")


def _internal() -> InternalError:
    return InternalError("The server met an error of its own and wrote it to its log. Please report it.")
