"""A log is followed over as many connections as it takes, also while nobody listens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx2
import pytest

from perdure.client.http import HttpApi
from perdure.core.events import Event, Kind
from perdure.errors import Unreachable
from perdure.wire import frames
from waiting_clock import WaitingClock

pytestmark = pytest.mark.anyio

LOG = [Event(1, Kind.STARTED, "", "", {}, 0), Event(2, Kind.COMPLETED, "", "", {}, 0)]


class Cut(httpx2.AsyncByteStream):
    """A reply that breaks off after some events."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self._events:
            yield frames.frame_of(event)
        raise httpx2.ReadError("cut")


class Server(httpx2.AsyncBaseTransport):
    """Meets each request with the next thing planned."""

    def __init__(self, *planned: Callable[[httpx2.Request], httpx2.Response]) -> None:
        self._planned = iter(planned)
        self.asked_after: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked_after.append(request.headers["last-event-id"])
        return next(self._planned)(request)


def refuse(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("refused", request=request)


def cut_after(*events: Event) -> Callable[[httpx2.Request], httpx2.Response]:
    return lambda _: httpx2.Response(200, stream=Cut(list(events)))


async def follow(server: Server) -> list[Event]:
    api = HttpApi("http://127.0.0.1:1", "key", transport=server, clock=WaitingClock())
    return [event async for event in api.follow("exe_1")]


async def test_a_follower_outlives_a_server_that_dies_and_comes_back() -> None:
    server = Server(cut_after(LOG[0]), refuse, refuse, cut_after(), cut_after(LOG[1]))
    assert await follow(server) == LOG
    assert server.asked_after == ["0", "1", "1", "1", "1"]


async def test_an_address_that_never_answered_is_told_at_once() -> None:
    with pytest.raises(Unreachable):
        await follow(Server(refuse))
