"""An execution's log as one unbroken iterator, over as many connections as it takes. No gap, no repeat."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from perdure.client.channel import Ask, Channel
from perdure.core.events import LAST, Event, Kind
from perdure.core.live import LiveNews
from perdure.errors import InternalError, Retryable
from perdure.wire import codec, frames, routes

SILENCE_SECONDS = 45.0
"""A stream without even a comment for this long is dead: servers send one every 15 s."""

_KINDS = frozenset(kind.value for kind in Kind)


class Follower:
    """Where one reader of one log stands."""

    def __init__(self, channel: Channel, execution: str, after: int, *, live: bool = False) -> None:
        """`live`: give what models say, too."""
        self._channel = channel
        self._execution = execution
        self._after: int = after
        self._live = live
        self._ended = False
        self._failures = 0

    async def news(self) -> AsyncGenerator[Event | LiveNews]:
        """Yield events until the log has ended. Comes back after every cut, for ever.

        Raises what coming back cannot change (`NotFound`, `Unauthorized`), and `Unreachable` if nothing ever answered
        at this address.
        """
        while not self._ended:
            async with aclosing(self._connection()) as news:
                async for one in news:
                    yield one
            if not self._ended:
                self._failures += 1
                await self._channel.pause(self._failures)

    async def _connection(self) -> AsyncGenerator[Event | LiveNews]:
        """Yield what one connection brings, until it is cut or the log has ended."""
        try:
            async with self._channel.stream(self._ask()) as pieces, aclosing(self._read(pieces)) as news:
                async for one in news:
                    yield one
        except Retryable:  # cut in the middle, or nobody listens there just now
            if not self._channel.met:
                raise

    def _ask(self) -> Ask:
        return Ask(
            "follow",
            "GET",
            routes.fill(routes.EVENTS, execution=self._execution),
            None if self._live else {"live": "false"},
            headers={"last-event-id": str(self._after)},
            reply_seconds=SILENCE_SECONDS,
            accept=frames.MEDIA_TYPE,
        )

    async def _read(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[Event | LiveNews]:
        reader = frames.FrameReader()
        async for piece in pieces:
            for frame in reader.feed(piece):
                if frame.kind == frames.DONE_KIND:
                    self._ended = True
                    return
                if frame.kind in _KINDS:
                    yield self._take(codec.load(Event, frame.data))
                elif self._live and (kind := frames.LIVE.get(frame.kind)) is not None:
                    yield codec.load(kind, frame.data)

    def _take(self, event: Event) -> Event:
        if event.seq != self._after + 1:
            raise InternalError(
                f"The log of {self._execution} came with event {event.seq} after {self._after}; expected "
                f"{self._after + 1}. The server broke its promise of no gap and no repeat; please report it."
            )
        self._after = event.seq
        self._failures = 0
        self._ended = event.kind in LAST
        return event
