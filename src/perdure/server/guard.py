"""What a request must be before anybody looks at it: addressed to us, from nobody else's web page, JSON, small.

Depends on no server: what servers check by default is not enough (`connection.py` adds what only a socket sees).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import Receive

from perdure.core.blobs import CHUNK_BYTES
from perdure.core.tokens import PATH as TOKEN_PATH
from perdure.errors import LimitExceeded, UserError
from perdure.server.options import ServeOptions
from perdure.wire import routes

Head = dict[bytes, bytes]
"""The headers that decide something, each at most once, or put together."""

_SINGLE = frozenset(
    {
        b"accept",
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"host",
        b"last-event-id",
        b"origin",
        b"sec-fetch-site",
        b"transfer-encoding",
        routes.CHALLENGE.encode(),
    }
)
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_-][a-z0-9._-]*)(?::[0-9]{1,5})?")
_JSON = re.compile(rb'application/json\s*(?:;\s*charset="?utf-8"?\s*)?', re.IGNORECASE)
_WILDCARDS = frozenset({"0.0.0.0", "::", ""})
_CHANGES_NOTHING = frozenset({"GET", "HEAD", "OPTIONS"})
_NO_BODY = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_SMALL_BODY = 64 * 1024
_OF_THEIR_OWN = {routes.EXECUTIONS, routes.SCHEDULES, routes.MCP, routes.A2A_AGENTS}
_LARGE = frozenset({*_OF_THEIR_OWN, *routes.WORKER} - {routes.BEGIN})
_LARGE_ENDINGS = ("/messages", "/signals", "/effects/ruling", "/chunks")
_LARGE_BELOW = (routes.ROOMS + "/", routes.A2A_BELOW)
"""Texts in rooms are counted in characters, of which one may take twelve bytes of JSON; agents come as definitions."""


class ClientGone(Exception):
    """The client hung up: there is nobody to answer."""


class Guard:
    """The checks that need only the headers. One per server; its memory of good hosts is bounded."""

    def __init__(self, options: ServeOptions) -> None:
        public = urlsplit(options.public_url).hostname or "localhost"
        names = {"localhost", "127.0.0.1", "::1", options.host, public, *options.hosts}
        self._hosts = {name.lower().strip("[]") for name in names}
        self._any_address = options.host in _WILDCARDS
        self._origins = {origin.lower().rstrip("/") for origin in options.origins}
        self._seen: set[bytes] = set()

    def admit(self, headers: Iterable[tuple[bytes, bytes]]) -> Head:
        """Return the headers that matter. Raises `UserError`: `bad_request`, `host_refused`, `origin_refused`."""
        head: Head = {}
        for name, value in headers:
            if name in _SINGLE:
                if name == b"accept" and name in head:  # a list: in two headers, it is one all the same
                    value = head[name] + b", " + value
                elif name in head:
                    raise UserError(f"The header {name.decode()!r} is given twice; send it once.", code="bad_request")
                head[name] = value
        host = head.get(b"host")
        if host is None:
            raise UserError("The request has no Host header; HTTP/1.1 asks for one.", code="bad_request")
        if host not in self._seen:
            self._check_host(host)
        if b"origin" in head:
            self._check_origin(head[b"origin"], host)
        return head

    def _check_host(self, host: bytes) -> None:
        match = _HOST.fullmatch(host.decode("latin-1").lower())
        if match is None:
            raise UserError(f"The Host header {host[:80]!r} is not a host and a port.", code="bad_request")
        name = match["name"].strip("[]")
        # A page can point its own name at this machine, but not an address: that needs no list.
        if name not in self._hosts and not (self._any_address and _is_address(name)):
            raise UserError(
                f"This server does not go by the name {name!r}, and a web page must not reach it under a name of its "
                f"own. Use {sorted(self._hosts)[0]}, or start the server with --allow-host {name}.",
                code="host_refused",
                host=name,
            )
        if len(self._seen) < 64:
            self._seen.add(host)

    def _check_origin(self, origin: bytes, host: bytes) -> None:
        given = origin.decode("latin-1").lower()
        own = host.decode("latin-1").lower()
        if given not in (f"http://{own}", f"https://{own}") and given not in self._origins:
            raise UserError(
                f"The web page at {given[:80]!r} may not call this server. If it should, start the server with "
                f"--allow-origin {given[:80]}.",
                code="origin_refused",
                origin=given[:200],
            )


def check_page(method: str, head: Head) -> None:
    """See that what a cookie stands for is asked for by a page of this server: browsers add cookies to whatever anybody
    makes them send. Raises `UserError` (`no_origin`, `cross_site`)."""
    site = head.get(b"sec-fetch-site", b"none")
    if site not in (b"same-origin", b"none"):
        raise UserError(f"A page of another site ({site.decode('latin-1')[:20]}) asks this.", code="cross_site")
    if method not in _CHANGES_NOTHING and b"origin" not in head:
        raise UserError(
            f"A {method} with a cookie says by its Origin header which page asks for it. Programs use an API key.",
            code="no_origin",
        )


def check_body(method: str, path: str, head: Head) -> int:
    """Return how many bytes of body this request may send. Raises if its headers announce another kind of body."""
    length = _length(head)
    chunked = head.get(b"transfer-encoding", b"").strip().lower()
    if chunked and (chunked != b"chunked" or b"content-length" in head):
        raise UserError(
            "Say how long the body is once: Content-Length, or Transfer-Encoding: chunked.", code="bad_request"
        )
    if not chunked and not length:
        return 0
    if method in _NO_BODY:
        raise UserError(f"{method} takes no body.", code="bad_request")
    if head.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise UserError("The body is compressed; send it as it is.", code="compressed_body")
    if is_piece(method, path):
        return _piece(head, length)
    if _JSON.fullmatch(head.get(b"content-type", b"").strip()) is None:
        found = head.get(b"content-type", b"none").decode("latin-1")
        raise UserError(
            f"The body's Content-Type is {found[:80]!r}; every route here takes application/json.",
            code="unsupported_media_type",
        )
    most = body_cap(path)
    if length > most:
        raise _too_large(most, f"{length:,} bytes")
    return most


def is_piece(method: str, path: str) -> bool:
    """Say whether a request sends a piece of a large value: the one kind of body that is no JSON."""
    return method == "PUT" and path.startswith(routes.BLOBS)


def _piece(head: Head, length: int) -> int:
    found = head.get(b"content-type", b"none").strip()
    if found != routes.OCTETS.encode():
        raise UserError(
            f"The body's Content-Type is {found[:80].decode('latin-1')!r}; a piece of a value is {routes.OCTETS}.",
            code="unsupported_media_type",
        )
    if length > CHUNK_BYTES:
        raise _too_large(CHUNK_BYTES, f"{length:,} bytes")
    return CHUNK_BYTES


def body_cap(path: str) -> int:
    """Return the largest body of a route, in bytes."""
    if path.startswith(TOKEN_PATH):
        return routes.MAX_TOKEN_BYTES
    large = path in _LARGE or path.startswith(_LARGE_BELOW) or path.endswith(_LARGE_ENDINGS)
    return routes.MAX_BODY_BYTES if large else _SMALL_BODY


async def read_body(receive: Receive, most: int) -> bytes:
    """Return the whole body. Raises `LimitExceeded` (`body_too_large`) as soon as it passes `most`, `ClientGone`."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False) and len(body) <= most:
        return body
    pieces = [body]
    size = len(body)
    while message.get("more_body", False) and size <= most:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
    if size > most:
        raise _too_large(most, "more than that")
    return b"".join(pieces)


def _length(head: Head) -> int:
    text = head.get(b"content-length", b"0").strip()
    if not text.isdigit() or len(text) > 18:
        raise UserError(f"Content-Length is {text[:40]!r}, which is no number of bytes.", code="bad_request")
    return int(text)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _too_large(most: int, found: str) -> LimitExceeded:
    return LimitExceeded(
        f"The body takes {found}; this route reads at most {most:,} bytes. Send a large value as a file's address.",
        code="body_too_large",
        limit=most,
    )
