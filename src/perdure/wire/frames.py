"""The event stream's text, both ways. Sans-IO: bytes in, frames out.

A frame that carries an event has its `seq` as `id`; a comment (`: beat`) has none; `event: done` says that the log
has ended. A stream that closes without `done` was cut, and goes on from the last `id`. `event: delta` and `event:
reset` tell of a reply while a model is still at it: they have no `id`, and nothing is missing where they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perdure.core.events import Event
from perdure.core.live import Delta, LiveNews, Reset
from perdure.errors import Unreachable
from perdure.wire import codec

MEDIA_TYPE = "text/event-stream"
DONE_KIND = "done"
LIVE: Mapping[str, type[Delta] | type[Reset]] = {"delta": Delta, "reset": Reset}
DONE = b"event: done\ndata: {}\n\n"
BEAT = b": beat\n\n"
OPENING = b"retry: 1000\n\n"
"""Sent first: the reply's headers leave at once, and browsers learn when to come back."""

MAX_FRAME_BYTES = 32 * 1024 * 1024
"""Longest line that a reader collects before it gives the stream up."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One dispatched frame, or a comment (`kind` is empty)."""

    kind: str
    data: bytes


def frame_of(event: Event) -> bytes:
    """Return the frame of one event."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.value.encode(), codec.dump(event))


def live_frame(news: LiveNews) -> bytes:
    """Return the frame of what is told of a reply in the making."""
    return b"event: %s\ndata: %s\n\n" % (kind_of(news).encode(), codec.dump(news))


def kind_of(news: LiveNews) -> str:
    """Return what such a frame is called."""
    return "delta" if isinstance(news, Delta) else "reset"


class FrameReader:
    """Frames from the pieces that a socket delivers, wherever they were cut."""

    def __init__(self) -> None:
        self._rest = b""
        self._kind = ""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[Frame]:
        """Yield the frames that `piece` completes. An unfinished one is never given out."""
        if b"\n" not in piece:
            self._rest += piece
            self._check_length()
            return
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            frame = self._take(line.removesuffix(b"\r"))
            if frame is not None:
                yield frame

    def _take(self, line: bytes) -> Frame | None:
        if not line:
            frame = Frame(self._kind or "message", b"\n".join(self._data)) if self._data else None
            self._kind, self._data = "", []
            return frame
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"":
                return Frame("", value)
            case b"event":
                self._kind = value.decode("utf-8", "replace")
            case b"data":
                self._data.append(value)
            case _:
                pass  # `id` stands in the data too, `retry` is for browsers; unknown names are to be ignored
        return None

    def _check_length(self) -> None:
        if len(self._rest) > MAX_FRAME_BYTES:
            raise Unreachable(
                f"The event stream sent a line of more than {MAX_FRAME_BYTES:,} bytes. Is this a Perdure server?",
                code="not_perdure",
            )
