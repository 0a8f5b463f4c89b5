"""One connection, watched: headers that never end, bodies that trickle, readers that stopped reading.

A subclass of uvicorn's protocol, because only what owns the socket can see these. No timers of its own: the server
calls `look` on every connection once a second.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from perdure.errors import LimitExceeded, PerdureError, Retryable, UserError
from perdure.server.options import Limits
from perdure.wire.errors import dump_error, status_of


class Reading(Enum):
    """What the next bytes belong to."""

    HEAD = "head"
    BODY = "body"
    NOTHING = "nothing"
    """A whole request was read: it is being answered, or was."""


class WatchedProtocol(HttpToolsProtocol):
    """HTTP/1.1 on one connection, within `limits`. Use `protocol_for`."""

    limits = Limits()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._reading = Reading.HEAD
        self._since = self.loop.time()
        self._begun = 0
        """Requests whose first byte came."""
        self._head_bytes = 0
        self._refusal: PerdureError | None = None
        self._discarded = 0
        self._unsent = 0
        self._stuck_since = self._since

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin, or turn away one too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self.refuse(Retryable("The server has as many connections as it takes. Try again soon.", code="busy"))

    def data_received(self, data: bytes) -> None:
        """Feed the parser. Bytes are counted while headers are unfinished: the parser would collect them for ever."""
        if self.transport.is_closing():
            return
        begun = self._begun
        super().data_received(data)
        if self._reading is Reading.HEAD and self._begun == begun:  # all of it belongs to these headers
            self._head_bytes += len(data)
            if self._head_bytes > self.limits.header_bytes and not self.transport.is_closing():
                self.refuse(self._too_large())

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        if self._reading is not Reading.HEAD:
            self._reading = Reading.HEAD
            self._since = self.loop.time()
        self._begun += 1
        self._head_bytes = 0
        self._discarded = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, within bounds."""
        if len(self.headers) >= self.limits.header_count:
            self._refusal = self._too_large()
            raise ValueError("too many headers")  # the parser turns any error into `send_400_response`
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the application, unless the headers alone rule that out."""
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > self.limits.header_bytes:
            self._refusal = self._too_large()
            raise ValueError("headers too large")
        self._reading = Reading.BODY
        self._since = self.loop.time()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body; throw it away if the request was refused already, but not for ever.

        To close at once would throw away the refusal too: a client that is still sending sees only a broken connection.
        """
        super().on_body(body)
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > self.limits.discard_bytes:
                self.transport.abort()

    def on_message_complete(self) -> None:
        """The request is whole."""
        super().on_message_complete()
        self._reading = Reading.NOTHING
        self._since = self.loop.time()

    def on_response_complete(self) -> None:
        """The reply is whole: idle, or on with the next request."""
        super().on_response_complete()
        self._since = self.loop.time()

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser could not take, in the shape of every other refusal."""
        self.refuse(self._refusal or UserError(f"This is not HTTP/1.1 as it should be: {msg}", code="bad_request"))

    def refuse(self, error: PerdureError) -> None:
        """Answer without the application, and close."""
        body = dump_error(error)
        lines = [
            STATUS_LINE[status_of(error)],
            b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body),
            body,
        ]
        self.transport.write(b"".join(lines))
        self.transport.close()

    def look(self, now: float) -> None:
        """Close the connection if it has overrun a limit."""
        limits = self.limits
        cycle = self._current()
        answering = cycle is not None and not cycle.response_complete
        if self._is_stuck(now):
            self.transport.abort()
        elif self._reading is Reading.BODY and now - self._since > limits.body_seconds:
            self._time_out("body", limits.body_seconds)
        elif answering:
            return
        elif self._reading is Reading.HEAD and now - self._since > limits.head_seconds:
            self._time_out("headers", limits.head_seconds)
        elif now - self._since > limits.idle_seconds:
            self.transport.close()

    def _is_stuck(self, now: float) -> bool:
        """Whether the client has taken nothing of what waits for it for too long."""
        unread = self.transport.get_write_buffer_size()
        if unread == 0 or unread != self._unsent:
            self._unsent = unread
            self._stuck_since = now
        return now - self._stuck_since > self.limits.stuck_seconds

    def _time_out(self, what: str, seconds: float) -> None:
        cycle = self._current()
        if self._reading is Reading.BODY and cycle is not None and cycle.response_started:
            self.transport.abort()  # an answer is on its way or was given: a second one would be nonsense
            return
        self.refuse(UserError(f"The request's {what} did not arrive within {seconds:g} s.", code="request_timeout"))

    def _current(self) -> RequestResponseCycle | None:
        return self.cycle  # None before the first request, whatever its declared type says

    def _too_large(self) -> LimitExceeded:
        return LimitExceeded(
            f"The request's headers are too many or too long: at most {self.limits.header_count} headers and "
            f"{self.limits.header_bytes:,} bytes.",
            code="headers_too_large",
        )


def protocol_for(limits: Limits) -> type[WatchedProtocol]:
    """Return the protocol with these limits."""
    return type("LimitedProtocol", (WatchedProtocol,), {"limits": limits})
