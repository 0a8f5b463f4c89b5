"""A2A over HTTP: the cards of a company's published agents, and `POST /a2a/AGENT`, which speaks JSON-RPC.

Guard, gate and body limits are those of every route (`app.py`). The company comes from the key alone, for cards too: to
another company an agent is not there. Nothing is kept: any server of the store answers the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from email.utils import formatdate
from functools import partial
from hashlib import sha256
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Scope, Send

from perdure.core.a2a import PublishedView
from perdure.doors.a2a_card import card_of
from perdure.doors.a2a_seat import SEAT, A2aTasks, Seat
from perdure.errors import NotFound, Retryable, UserError
from perdure.server.backend import Backend
from perdure.server.call import Call
from perdure.server.guard import ClientGone
from perdure.server.reply import send_bytes
from perdure.server.stream import Lasting, Streams, piece
from perdure.wire import codec, routes

Frame = dict[str, str]
MOST_WAIT_SECONDS = 300.0
"""How long a message or a cancel waits for its task; then the task is answered as it stands."""


def is_a2a(path: str) -> bool:
    """Say whether an address is of this door."""
    return path == routes.A2A_CARD or path.startswith(routes.A2A_BELOW)


class A2aDoor:
    """Answers A2A requests of one HTTP application. The SDK is loaded when the first message comes."""

    def __init__(self, backend: Backend, public_url: str) -> None:
        """`public_url`: where the public reaches this server; empty: where each request did."""
        self._backend, self._public = backend, public_url.rstrip("/")
        self._spoken: Any = None
        """Reads a request of the protocol, asks its handler and writes the answer."""

    async def answer(self, call: Call, scope: Scope) -> None:
        """Answer one request. Raises `NotFound`; `UserError` (`a2a_missing`, `method_not_allowed`)."""
        method, path = scope["method"], scope["path"]
        agent, card = _place(path)
        wanted = "GET" if card else "POST"
        if method != wanted:
            raise UserError(f"{path[:200]} does not take {method}; it takes {wanted}.", code="method_not_allowed")
        tasks = self._backend.a2a(call.principal.company)
        if card:
            await self._show(call, await tasks.published(agent) if agent else await _only(call))
            return
        await tasks.published(agent)
        if self._spoken is None:
            self._spoken = await asyncio.to_thread(_load)
        await self._speak(call, scope, _seat(call, tasks, agent, self._backend.pushes))

    async def _show(self, call: Call, agent: PublishedView) -> None:
        base = self._public or f"http://{call.head[b'host'].decode('latin-1')}"
        address = base + routes.fill(routes.A2A, agent=agent.agent)
        body = codec.dump(card_of(agent, address, asks_for_key=call.known_by != "nothing", pushes=self._backend.pushes))
        headers = [
            (b"cache-control", b"private, max-age=60"),
            (b"etag", f'"{sha256(body).hexdigest()[:32]}"'.encode()),
            (b"last-modified", formatdate(agent.published_ms / 1000, usegmt=True).encode()),
        ]
        await send_bytes(call.send, body, headers=headers)

    async def _speak(self, call: Call, scope: Scope, seat: Seat) -> None:
        request = Request({**scope, SEAT: seat}, _once(call))
        reply: Response = await self._spoken.handle_requests(request)
        frames: AsyncGenerator[Frame] | None = getattr(reply, "body_iterator", None)
        if frames is None:
            await reply(scope, call.receive, call.send)
            return
        async with aclosing(frames):
            told = _Told(call.streams, call.principal.company, call.limits.streams, frames)
            await told(scope, call.receive, call.send)


class _Told(Lasting):
    """What happens to a task, as the SDK has it in frames, on a stream of ours: it ends when the server leaves."""

    opening = b""  # clients of 0.3 take a frame without data for one that is broken

    def __init__(self, streams: Streams, company: str, most: int, told: AsyncGenerator[Frame]) -> None:
        super().__init__(streams, company, most)
        self._frames = told

    async def pump(self, send: Send) -> None:
        """Send them."""
        async for frame in self._frames:
            await send(_frame(frame))


def _frame(frame: Frame) -> Message:
    return piece("".join(f"{name}: {line}\n" for name, line in frame.items()).encode() + b"\n")


def _place(path: str) -> tuple[str, bool]:
    """Return which agent an address is of, and whether it is its card's. Raises `UserError` (`no_such_route`)."""
    if path == routes.A2A_CARD:
        return "", True
    agent, _, more = path.removeprefix(routes.A2A_BELOW).partition("/")
    if not agent or f"/{more}" not in ("/", routes.A2A_CARD):
        raise UserError(
            f"There is no route {path[:200]}. An agent is reached at {routes.A2A}, its card is at "
            f"{routes.A2A}{routes.A2A_CARD}.",
            code="no_such_route",
        )
    return agent, bool(more)


async def _only(call: Call) -> PublishedView:
    """Return the one agent that the company has published. Raises `NotFound`."""
    found = await call.api.published_agents()
    if len(found) == 1:
        return found[0]
    where = ", ".join(routes.fill(routes.A2A, agent=one.agent) + routes.A2A_CARD for one in found[:20])
    raise NotFound(
        f"your company has published {len(found)} agents, and this is the card of the only one. "
        + (f"Ask for one of theirs: {where}." if found else "`perdure a2a publish MODULE:AGENT` adds one."),
        code="which_agent" if found else "no_such_agent",
    )


def _seat(call: Call, tasks: A2aTasks, agent: str, pushes: bool) -> Seat:
    return Seat(agent, call.by(""), tasks, pushes, partial(_hold, call))


async def _hold(call: Call, wait: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Wait for a task while the client is there and the server stays. Whoever asks again finds the next server."""
    with call.streams.place(call.principal.company, "waits for A2A tasks", call.limits.polls):
        try:
            await call.streams.run(_for_a_while(wait), call.receive)
        except ClientGone:
            return
        except Retryable as error:
            if error.code != "draining":
                raise


async def _for_a_while(wait: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with anyio.move_on_after(MOST_WAIT_SECONDS):
        await wait()


def _load() -> Any:
    try:
        from perdure.doors.a2a_protocol import make_dispatcher  # noqa: PLC0415 - it needs an extra, and is slow to import
    except ImportError:
        raise UserError(
            "This server cannot speak A2A: install it there with `pip install 'perdure[a2a]'`.", code="a2a_missing"
        ) from None
    return make_dispatcher()


def _once(call: Call) -> Any:
    """Return what gives the body, which was read and judged before."""

    async def receive() -> Message:
        return {"type": "http.request", "body": call.raw, "more_body": False}

    return receive
