"""Replies in the making, as far as this server has heard them: kept in memory, never in the log.

All who look on read one text, each from its own place in it. So who comes late gets the text so far, who reads slowly
gets larger pieces, and neither costs memory. While nobody looks on, a piece costs an entry in a list.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from perdure.core.events import Event, Kind
from perdure.core.live import Delta, LiveNews, Reset
from perdure.models.port import ModelError, ModelPort, ModelReply, ModelRequest, Models, TextDelta
from perdure.server.hub import Hub, Topic
from perdure.store.tx import Note

MOST_KEPT = 1_000_000
"""Characters of one reply. What comes after them is seen when it is recorded."""
MOST_TOLD = 16_384
"""Characters of one `Delta`."""


LIVE = "live"


def live_topic(execution: str) -> Topic:
    """Return under what to listen for text of an execution's replies."""
    return LIVE, execution


class LiveText:
    """What one request to a model brought so far, here or at another server. Owner: the executor's loop; read from any
    thread."""

    def __init__(self, address: str, attempt: int, fence: int, *, told: bool = True) -> None:
        self.address = address
        self.attempt = attempt
        self.fence = fence
        """Under which it is asked: whoever has a later one asks, too."""
        self.told = told
        """Whether it is told here, or only where the model is asked."""
        self._pieces: list[str] = []
        self._ends: list[int] = []
        """How many characters there are with each piece; written after it, so that whoever counts finds them."""
        self._full = False

    @property
    def length(self) -> int:
        """How many characters there are."""
        return self._ends[-1] if self._ends else 0

    def add(self, piece: str) -> bool:
        """Keep a piece. Says whether there is more to tell."""
        end = self.length + len(piece)
        self._full = self._full or end > MOST_KEPT
        if self._full or not piece:
            return False
        self._pieces.append(piece)
        self._ends.append(end)
        return True

    def between(self, offset: int, end: int) -> str:
        """Return the characters from `offset` on, up to `end`, which it has."""
        first = bisect_right(self._ends, offset)
        last = bisect_right(self._ends, end - 1) + 1
        start = self._ends[first - 1] if first else 0
        return "".join(self._pieces[first:last])[offset - start : end - start]


class LiveTexts:
    """The replies in the making of all executions that this process drives. Owner: the executor, on its loop."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._texts: dict[str, tuple[LiveText, ...]] = {}

    def of(self, execution: str) -> tuple[LiveText, ...]:
        """Return those of one execution. From any thread."""
        return self._texts.get(execution, ())

    def executions(self) -> list[str]:
        """Return the executions for which a model is asked now that tells its reply in pieces."""
        return list(self._texts)

    def begin(self, execution: str, text: LiveText) -> None:
        """A model is asked: whatever was heard of an earlier attempt is void."""
        others = (one for one in self.of(execution) if one.address != text.address)
        self._texts[execution] = (*others, text)
        self._tell(execution)

    def hear(self, execution: str, text: LiveText, part: TextDelta | ModelReply) -> None:
        """Take what the model said."""
        if isinstance(part, TextDelta) and text.add(part.text):
            self._tell(execution)

    def _tell(self, execution: str) -> None:
        """Have those look who listen."""
        self._hub.publish([Note(*live_topic(execution))])

    def end(self, execution: str, text: LiveText) -> None:
        """The model has answered, or will not. Nothing of it is told any more."""
        left = tuple(one for one in self.of(execution) if one is not text)
        if left:
            self._texts[execution] = left
        else:
            self._texts.pop(execution, None)


class Shown:
    """What one reader was told of an execution's replies in the making. Lives on the reader's loop."""

    def __init__(self, replies: Callable[[], Iterable[LiveText]]) -> None:
        """`replies` gives those in the making, one of each step at most."""
        self._replies = replies
        self._told: dict[str, tuple[LiveText, int]] = {}
        """How much of which text, by address."""
        self._fence = 0

    def passed(self, event: Event) -> None:
        """The reader was given an event of the log: what it replaces is told no more."""
        if event.kind is Kind.TAKEN_OVER:
            self._fence = max(self._fence, event.data.get("fence", 0))
        elif event.kind is Kind.STEP_RECORDED:
            self._told.pop(event.address, None)

    def news(self) -> Iterator[LiveNews]:
        """Yield what there is now and was not told. May be left at any place; the rest comes the next time."""
        for text in self._replies():
            if text.fence >= self._fence:
                yield from self._news_of(text) if text.told else self._untold(text)

    def _untold(self, text: LiveText) -> Iterator[Reset]:
        """Say once that a reply is told elsewhere: with it all is void that was told."""
        if self._told.get(text.address, (None, 0))[0] is not text:
            self._told = {text.address: (text, 0)}
            yield Reset("elsewhere")

    def _news_of(self, text: LiveText) -> Iterator[Delta]:
        known, offset = self._told.get(text.address, (text, 0))
        length = text.length
        if known is not text:
            void, offset = offset > 0, 0
            self._told[text.address] = text, 0
            if void and not length:  # there is nothing yet to take the place of what was told
                yield Delta(text.address, text.attempt, 0, "")
        while offset < length:
            piece = text.between(offset, min(length, offset + MOST_TOLD))
            self._told[text.address] = text, offset + len(piece)
            yield Delta(text.address, text.attempt, offset, piece)
            offset += len(piece)


@dataclass(frozen=True, slots=True)
class LiveModels:
    """`Models` of one execution, whose replies are told as they come."""

    models: Models
    texts: LiveTexts
    execution: str
    fence: Callable[[], int]
    """Under which the execution is held now."""

    def port(self, model: str, base_url: str | None = None) -> ModelPort:
        """Return the port. What does not tell its reply in pieces is asked as ever."""
        return _LivePort(self.models.port(model, base_url), self)


@dataclass(frozen=True, slots=True)
class _LivePort:
    port: ModelPort
    told: LiveModels

    async def request(self, request: ModelRequest) -> ModelReply:
        if not self.port.streams(request):
            return await self.port.request(request)
        reply: ModelReply | None = None
        async with aclosing(self.stream(request)) as parts:
            async for part in parts:
                reply = part if isinstance(part, ModelReply) else reply
        if reply is None:
            raise ModelError("transient", f"{request.model}: the reply ended before it was whole.")
        return reply

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReply]:
        texts, execution = self.told.texts, self.told.execution
        text = LiveText(request.call.partition("/")[2], request.attempt, self.told.fence())
        texts.begin(execution, text)
        try:
            async with aclosing(cast("Any", self.port.stream(request))) as parts:
                async for part in parts:
                    texts.hear(execution, text, part)
                    yield part
        finally:
            texts.end(execution, text)

    def streams(self, request: ModelRequest) -> bool:
        return self.port.streams(request)
