"""Replies that last: event streams, waiting leases, liveness connections. Each ends when its client goes, when the
server leaves, or when it is done, whichever is first; none outlives its request.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar, cast

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from perdure.core.events import Event
from perdure.core.live import LiveNews
from perdure.core.ports import Clock
from perdure.errors import PerdureError, Retryable
from perdure.log import get_log
from perdure.server.guard import ClientGone
from perdure.wire import frames

T = TypeVar("T")

log = get_log("perdure.http")


class Streams:
    """All lasting replies of one server. Lives on the loop it was made on."""

    def __init__(self, clock: Clock, beat_seconds: float) -> None:
        self.clock = clock
        self.beat_seconds = beat_seconds
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open: Counter[tuple[str, str]] = Counter()

    def close(self) -> None:
        """End all of them, now and from now on. Clients see a stream that was cut, and come back."""
        if not self._closing.done():
            self._closing.set_result(None)

    @contextmanager
    def place(self, company: str, kind: str, most: int) -> Generator[None]:
        """Take one of a company's `most` places. Raises `Retryable` (`busy`)."""
        if self._open[company, kind] >= most:
            raise Retryable(
                f"There are {most} {kind} open already, the most that one company may have. Close some, or try later.",
                code="busy",
                limit=most,
            )
        self._open[company, kind] += 1
        try:
            yield
        finally:
            self._open[company, kind] -= 1
            if not self._open[company, kind]:
                del self._open[company, kind]

    async def run(self, work: Coroutine[Any, Any, T], receive: Receive) -> T:
        """Run `work` for as long as the client is there. Its cleanup has ended when this returns.

        Raises `ClientGone`, or `Retryable` (`draining`) when the server leaves first.
        """
        task = asyncio.create_task(work, name="http.lasting")
        gone = asyncio.create_task(_until_gone(receive), name="http.gone")
        try:
            await asyncio.wait((task, gone, self._closing), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        finally:
            await _end(gone)
            await _end(task)
        if not self._closing.done():
            raise ClientGone
        raise Retryable("The server is going down; it will be back, or another one is there.", code="draining")


class Lasting(Response):
    """A reply that goes on until its client goes, the server leaves or `pump` is done; it beats while it is silent."""

    media_type = frames.MEDIA_TYPE
    opening = frames.OPENING
    """Sent first."""

    def __init__(self, streams: Streams, company: str, most: int) -> None:
        """`most`: how many of them a company may have."""
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._streams = streams
        self._company = company
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.place(self._company, "event streams", self._most):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send(piece(self.opening))
            try:
                await self._streams.run(self._beside_a_beat(send), receive)
            except ClientGone:
                return
            except Retryable as error:
                log.debug("http.stream_cut", code=error.code)
            except PerdureError as error:
                log.warning("http.stream_failed", code=error.code, error=error.message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def pump(self, send: Send) -> None:
        """Send what there is to say."""
        raise NotImplementedError

    async def _beside_a_beat(self, send: Send) -> None:
        beats = asyncio.create_task(self._beat(send), name="http.beat")
        try:
            await self.pump(send)
        finally:
            await _end(beats)

    async def _beat(self, send: Send) -> None:
        while True:
            await self._streams.clock.sleep(self._streams.beat_seconds)
            await send(piece(frames.BEAT))


class EventStream(Lasting):
    """The log of an execution above `after`, and then what happens. Ends with `done` when the execution has ended.

    Between events it may be told what a model says, in frames without an id: who comes back is not missing any.
    """

    def __init__(self, streams: Streams, news: AsyncIterator[Event | LiveNews], company: str, most: int) -> None:
        super().__init__(streams, company, most)
        self._news = news

    async def pump(self, send: Send) -> None:
        """Send the log."""
        async with aclosing(cast("Any", self._news)) as news:
            async for one in news:
                await send(piece(frames.frame_of(one) if isinstance(one, Event) else frames.live_frame(one)))
        await send(piece(frames.DONE))


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its cleanup. What it raised was the business of who awaited it, or of nobody."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()


def piece(body: bytes) -> Message:
    """Return a part of a reply that goes on."""
    return {"type": "http.response.body", "body": body, "more_body": True}
