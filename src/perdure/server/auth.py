"""Whose request it is. The company comes from the key alone; without a key there is no company."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from dataclasses import dataclass
from typing import Protocol

from perdure.core.ports import Random
from perdure.engine.keys import DEFAULT_COMPANY, PREFIX, Principal
from perdure.errors import Unauthorized
from perdure.server.backend import Backend
from perdure.server.guard import Head
from perdure.wire.state_file import ServerState

REMEMBER_SECONDS = 5.0
"""How long a revoked key may still be believed."""
_MOST_REMEMBERED = 1024
_SHORTEST_KEY = 20
NOBODY = Principal(DEFAULT_COMPANY, "anonymous")
"""Who asks where nobody needs a key."""


class Gate(Protocol):
    """Says who asks."""

    async def admit(self, head: Head) -> Principal:
        """Return whose request it is. Raises `Unauthorized`."""
        ...


class KeyGate:
    """Asks for a key on every request. Remembers hashes, never keys."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._known: dict[bytes, tuple[Principal, float]] = {}

    async def admit(self, head: Head) -> Principal:
        """Return whose key the request carries. Raises `Unauthorized`.

        Keys are compared by their hashes, so how long it takes tells nothing about how much of a guess was right.
        """
        key = _bearer(head)
        digest = hashlib.sha256(key.encode()).digest()
        now = asyncio.get_running_loop().time()
        known = self._known.get(digest)
        if known is not None and known[1] > now:
            return known[0]
        principal = await self._backend.authenticate(key)
        if principal is None:
            self._known.pop(digest, None)
            raise Unauthorized(
                "The API key is not one of this server's, or was revoked. Use the key that `perdure server` showed at "
                "its first start, or one made for you."
            )
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[digest] = (principal, now + REMEMBER_SECONDS)
        return principal


class OpenGate:
    """Lets everybody in. Only on loopback, and only when asked for."""

    async def admit(self, head: Head) -> Principal:
        """Return the default company's nobody."""
        return NOBODY


@dataclass(frozen=True, slots=True)
class AdminKey:
    """The key of whoever runs the server."""

    key: str
    is_new: bool
    """To be shown, once: it was made just now, and the store holds only its hash."""


async def admin_key(backend: Backend, random: Random, previous: ServerState | None) -> AdminKey:
    """Return the admin key: the state file's if it is this store's and still good, else a new one of 256 bits."""
    if previous is not None and previous.key and previous.store == backend.info().store:
        found = await backend.authenticate(previous.key)
        if found is not None and found.company == DEFAULT_COMPANY:
            return AdminKey(previous.key, is_new=False)
    key = PREFIX + base64.urlsafe_b64encode(random.token(32)).decode().rstrip("=")
    await backend.add_key(DEFAULT_COMPANY, "admin", key)
    return AdminKey(key, is_new=True)


def _bearer(head: Head) -> str:
    scheme, _, key = head.get(b"authorization", b"").decode("latin-1").partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or len(key) < _SHORTEST_KEY:
        raise Unauthorized(
            "This route asks for an API key: send `Authorization: Bearer KEY`. Clients take it from api_key=, from "
            "PERDURE_API_KEY, or, on the server's own machine, from its state file."
        )
    return key
