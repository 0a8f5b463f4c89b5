"""What anybody may ask who holds a token's secret, and nothing else: to end that one wait. No key, no company.

A GET says the same of every secret and looks nothing up: mail programs and chat previews follow links.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Receive, Scope, Send

from perdure.core import tokens
from perdure.core.ports import Clock
from perdure.engine.keys import DEFAULT_COMPANY
from perdure.engine.token import unknown_token
from perdure.errors import LimitExceeded, NotFound, Retryable, UserError
from perdure.server import guard
from perdure.server.backend import Backend
from perdure.server.guard import Head
from perdure.server.reply import send_json
from perdure.wire import bodies, codec, routes, strict

BY = "token"
"""Who ended the wait, as the log says it: whoever held the secret."""
MOST_MISSES = 20
MISS_WINDOW_MS = 60_000
"""An address that sent this many unknown secrets within the window is told to stop until it has passed."""
_MOST_ADDRESSES = 10_000
_NEUTRAL = {"message": "This address takes the result of one wait, by POST with a JSON body. A GET changes nothing."}
_ACCEPTED = {"status": "accepted"}


@dataclass(slots=True)
class Misses:
    """How often each address guessed wrong. Owner: the app, on its loop. Bounded."""

    clock: Clock
    miss: Callable[[], NotFound] = unknown_token
    """Says what a miss is answered with."""
    _seen: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Address to (first miss of the window by the monotonic clock, how many)."""

    def add(self, address: str) -> NotFound | LimitExceeded:
        """Count a miss and return what it is answered with: `no_such_token`, or `rate_limited` for who guesses."""
        now_ms = self.clock.monotonic_ms()
        since_ms, count = self._seen.pop(address, (now_ms, 0))
        if now_ms - since_ms >= MISS_WINDOW_MS:
            since_ms, count = now_ms, 0
        if len(self._seen) >= _MOST_ADDRESSES:
            del self._seen[next(iter(self._seen))]
        self._seen[address] = since_ms, count + 1
        if count < MOST_MISSES:
            return self.miss()
        left = (since_ms + MISS_WINDOW_MS - now_ms) // 1000 + 1
        return LimitExceeded(
            f"Too many unknown secrets from this address. Try again in {left} s.",
            code="rate_limited",
            retry_after_seconds=left,
        )


def secret_in(path: str) -> str | None:
    """Return the secret that a path carries, if it has the form of one."""
    if not path.startswith(tokens.PATH):
        return None
    secret = path.removeprefix(tokens.PATH).partition("/")[0]
    return secret if tokens.is_secret(secret) else None


def shown(path: str) -> str:
    """Return a path as a log may hold it: without a secret."""
    return f"{tokens.PATH}…" if secret_in(path) else path


class OpenTokens:
    """Answers requests on a secret's address."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._misses = Misses(clock)

    async def answer(self, secret: str, scope: Scope, head: Head, receive: Receive, send: Send) -> None:
        """Answer one request. Raises what is answered as an error."""
        verb = scope["path"].removeprefix(tokens.PATH + secret)
        if verb not in ("", "/complete", "/fail"):
            raise UserError(f"A token has no {verb[:40]!r}; it has /complete and /fail.", code="no_such_route")
        if scope["method"] in ("GET", "HEAD"):
            await send_json(send, _NEUTRAL)
            return
        if scope["method"] != "POST":
            raise UserError("A token takes POST, and GET, which changes nothing.", code="method_not_allowed")
        if not self._backend.accepting:
            raise Retryable("The server is going down; it will be back, or another one is there.", code="draining")
        # Looked up before the body is read: a guess costs neither that nor a write. Many may share an address with one
        # who guesses, so a token that is known always passes.
        if not await self._backend.knows_token(secret):
            raise self._misses.add((scope.get("client") or ("",))[0])
        await self._end(secret, verb, await _body(scope["path"], head, receive))
        await send_json(send, _ACCEPTED)

    async def _end(self, secret: str, verb: str, body: Any) -> None:
        api = self._backend.api(DEFAULT_COMPANY)  # a secret works for whichever company it belongs to
        match verb:
            case "/complete":
                await api.complete_token(secret, codec.read(bodies.CompleteBody, body).value, by=BY)
            case "/fail":
                await api.fail_token(secret, codec.read(bodies.FailBody, body).error, by=BY)
            case _:  # whoever calls back knows nothing of our shapes: all that it sends is the value
                await api.complete_token(secret, body, by=BY)


async def _body(path: str, head: Head, receive: Receive) -> Any:
    most = guard.check_body("POST", path, head)
    raw = await guard.read_body(receive, min(most, routes.MAX_TOKEN_BYTES)) if most else b""
    return strict.parse(raw) if raw else None
