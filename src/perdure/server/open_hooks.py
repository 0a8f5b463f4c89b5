"""What anybody may do who holds a hook's secret, and nothing else: say something to one member of one room.

What comes is data of nobody in the room: it is labelled with the hook, and steers what it leads to like another
company's text. A GET says the same of every secret and looks nothing up.
"""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from perdure.core import codec
from perdure.core.hooks import AUTHOR, PATH, Hook, is_secret, text_of
from perdure.core.ports import Clock
from perdure.core.rooms import MAX_NAME, Actor, Post
from perdure.errors import NotFound, Retryable, UserError
from perdure.server import guard, open_tokens
from perdure.server.backend import Backend
from perdure.server.guard import Head
from perdure.server.open_tokens import Misses
from perdure.server.reply import send_json
from perdure.wire import routes, strict

_NEUTRAL = {"message": "This address takes what is to be said, by POST with a JSON body. A GET changes nothing."}
_ACCEPTED = {"status": "accepted"}
DELIVERY = (b"idempotency-key", b"webhook-id", b"x-github-delivery")
"""Headers in which senders name a delivery, the same when they send it again; the first that is there counts."""


def hook_secret_in(path: str) -> str | None:
    """Return the secret that a path is, if it has the form of one."""
    secret = path.removeprefix(PATH) if path.startswith(PATH) else ""
    return secret if is_secret(secret) else None


def shown(path: str) -> str:
    """Return a path as a log may hold it: without a secret, of a hook or of a token."""
    return f"{PATH}…" if hook_secret_in(path) else open_tokens.shown(path)


def unknown_hook() -> NotFound:
    """Return the answer to every secret that is none, in the same words."""
    return NotFound("there is no such hook, or it was taken away.", code="no_such_hook")


class OpenHooks:
    """Answers requests on a hook's address."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._misses = Misses(clock, unknown_hook)

    async def answer(self, secret: str, scope: Scope, head: Head, receive: Receive, send: Send) -> None:
        """Answer one request. Raises what is answered as an error."""
        if scope["method"] in ("GET", "HEAD"):
            await send_json(send, _NEUTRAL)
            return
        if scope["method"] != "POST":
            raise UserError("A hook takes POST, and GET, which changes nothing.", code="method_not_allowed")
        if not self._backend.accepting:
            raise Retryable("The server is going down; it will be back, or another one is there.", code="draining")
        hook = await self._backend.hook(secret)  # before the body is read: a guess costs neither that nor a write
        if hook is None:
            raise self._misses.add((scope.get("client") or ("",))[0])
        most = guard.check_body("POST", scope["path"], head)
        raw = await guard.read_body(receive, min(most, routes.MAX_TOKEN_BYTES)) if most else b""
        strict.parse(raw or b"null")
        text = text_of(raw.decode())
        await self._backend.say(hook, text, _key(scope, hook, text))
        await send_json(send, _ACCEPTED)


def _key(scope: Scope, hook: Hook, text: str) -> str:
    """Return what makes a delivery that is sent again the same: its sender's name for it, else what it says."""
    given = dict(scope["headers"])
    for name in DELIVERY:
        if found := given.get(name, b"").decode("latin-1").strip():  # an empty one names nothing
            return found if len(found) <= MAX_NAME and found.isprintable() else codec.digest(found)
    return f"content {codec.digest(hook.name, text)}"


def spoken_through(hook: Hook, text: str, key: str) -> tuple[Actor, Post]:
    """Return who says it, and what."""
    author = f"{AUTHOR}{hook.name}"
    return Actor(hook.company, author, steered=(author,)), Post(text, (hook.to,), key=key)
