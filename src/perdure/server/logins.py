"""Sign a browser in: by a link that is good once, for a cookie that no script can read. Redeeming is the only change
that needs no key, and it is a POST of a page of this server, so nothing that merely opens a link uses it up.
"""

from __future__ import annotations

import base64
from typing import Any

from starlette.types import Receive, Send

from perdure.core.ports import Random
from perdure.engine.keys import Principal
from perdure.engine.logins import LINK, SESSION, SESSION_MS
from perdure.errors import Unauthorized, UserError
from perdure.server import guard
from perdure.server.backend import Backend
from perdure.server.guard import Head
from perdure.wire import bodies_screen, codec, routes, strict

PAGE = "/login"


def new_secret(kind: str, random: Random) -> str:
    """Return a secret of 256 bits."""
    return kind + base64.urlsafe_b64encode(random.token(32)).decode().rstrip("=")


async def new_link(backend: Backend, who: Principal, random: Random) -> bodies_screen.LinkView:
    """Make a link whose session will act for somebody. What follows `#` stays in the browser until it is redeemed."""
    secret = new_secret(LINK, random)
    expires_ms = await backend.add_link(who, secret)
    return bodies_screen.LinkView(f"{PAGE}#{secret}", expires_ms)


class Logins:
    """Answers who signs in, and reads and writes the cookie."""

    def __init__(self, backend: Backend, random: Random, *, public_url: str) -> None:
        self._backend = backend
        self._random = random
        self._public = public_url
        # Browsers share cookies between the ports of a machine: those of two stores must not have one name.
        self._cookie = f"perdure_{backend.info().store.removeprefix('sto_')[:12]}"

    def session_in(self, head: Head) -> str | None:
        """Return the session's secret that a request's cookies carry."""
        for pair in head.get(b"cookie", b"").decode("latin-1").split(";"):
            name, _, value = pair.strip().partition("=")
            if name == self._cookie and value.startswith(SESSION):
                return value
        return None

    async def redeem(self, head: Head, receive: Receive, send: Send) -> None:
        """Exchange a link for a session. Raises `Unauthorized` (`link_used`), and what is wrong with the request."""
        if b"origin" not in head:
            raise UserError("Only a page of this server signs in: the request has no Origin header.", code="no_origin")
        most = guard.check_body("POST", routes.SESSION, head)
        raw = await guard.read_body(receive, most) if most else b"{}"
        link = codec.read(bodies_screen.SignInBody, strict.parse(raw)).link
        session = new_secret(SESSION, self._random)
        if not link.startswith(LINK) or await self._backend.redeem(link, session) is None:
            raise Unauthorized(
                "This link was used already, is older than ten minutes, or is another server's. `perdure ui` prints a "
                "new one.",
                code="link_used",
            )
        secure = head[b"origin"].startswith(b"https://") or self._public.startswith("https://")
        await _answer(send, self._set(session, SESSION_MS // 1000, secure=secure))

    async def end(self, head: Head, send: Send) -> None:
        """End the session of a request, and have its cookie forgotten."""
        secret = self.session_in(head)
        if secret is not None:
            await self._backend.end_session(secret)
        await _answer(send, self._set("", 0, secure=False))

    def _set(self, value: str, seconds: int, *, secure: bool) -> bytes:
        text = f"{self._cookie}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict"
        return (text + "; Secure" if secure else text).encode()


async def _answer(send: Send, cookie: bytes) -> None:
    headers: list[tuple[bytes, bytes]] = [(b"set-cookie", cookie), (b"cache-control", b"no-store")]
    start: dict[str, Any] = {"type": "http.response.start", "status": 204, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": b""})
