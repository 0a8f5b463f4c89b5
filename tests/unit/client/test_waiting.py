"""Waiting for an end: one request that waits, again after every cut, and never in a hurry."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
import pytest

from perdure.client.http import WAIT_SECONDS, HttpApi
from perdure.core.views import ExecutionView, UsageView
from perdure.errors import NotFound, Unreachable
from perdure.wire import codec
from perdure.wire.errors import dump_error
from waiting_clock import WaitingClock

pytestmark = pytest.mark.anyio

Reply = Callable[[httpx2.Request], httpx2.Response]


class Server(httpx2.AsyncBaseTransport):
    """Meets each request with the next thing planned."""

    def __init__(self, *planned: Reply) -> None:
        self._planned = iter(planned)
        self.clock = Passing()
        self.asked: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(str(request.url.raw_path, "ascii"))
        return next(self._planned)(request)

    async def wait(self) -> None:
        await HttpApi("http://127.0.0.1:1", "key", transport=self, clock=self.clock).wait("exe_1")


class Passing(WaitingClock):
    """Time passes while a server waits, and only then."""

    now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms


def stands(state: str) -> Reply:
    view = ExecutionView("exe_1", "a", "", state, None, None, 1, 2, None, (), (), UsageView(), 3, 0, 0, 0, None)
    return lambda _: httpx2.Response(200, content=codec.dump(view))


def refuse(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("refused", request=request)


def cut(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ReadError("cut", request=request)


async def test_a_server_that_dies_before_its_first_answer_was_there() -> None:
    """It took the connection, so there is a server: whoever waits for an end waits for the next one."""
    server = Server(cut, *[refuse] * 20, stands("completed"))
    await server.wait()
    assert len(server.asked) == 22


async def test_one_request_waits_for_the_end() -> None:
    server = Server(stands("completed"))
    await server.wait()
    assert server.asked == [f"/v1/executions/exe_1?wait_seconds={WAIT_SECONDS}"]
    assert server.clock.slept == []


async def test_it_asks_again_as_soon_as_a_server_has_waited_in_vain() -> None:
    server = Server(lambda request: waited(request), stands("failed"))

    def waited(request: httpx2.Request) -> httpx2.Response:
        server.clock.now_ms += WAIT_SECONDS * 1000
        return stands("running")(request)

    await server.wait()
    assert len(server.asked) == 2
    assert server.clock.slept == []


async def test_a_server_that_does_not_wait_is_asked_less_and_less_often() -> None:
    server = Server(*[stands("running")] * 4, stands("cancelled"))
    await server.wait()
    first, *_, last = server.clock.slept
    assert len(server.clock.slept) == 4
    assert last > 5 * first


async def test_who_waits_outlives_a_server_that_dies_and_comes_back() -> None:
    server = Server(stands("waiting"), cut, *[refuse] * 20, stands("running"), *[cut] * 7, stands("completed"))
    await server.wait()


async def test_an_address_that_never_answered_is_told_at_once() -> None:
    with pytest.raises(Unreachable):
        await Server(refuse, refuse).wait()


async def test_an_execution_that_is_not_there_is_told_of_at_once() -> None:
    missing = NotFound("There is no execution exe_1.")
    server = Server(lambda _: httpx2.Response(404, content=dump_error(missing)))
    with pytest.raises(NotFound):
        await server.wait()
