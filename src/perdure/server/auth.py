"""Whose request it is. The company comes from the key alone; without a key there is no company."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from perdure.core.companies import new_key
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
ADMIN = Principal(DEFAULT_COMPANY, "admin")
"""Whoever runs the server."""


class Gate(Protocol):
    """Says who asks."""

    async def admit(self, head: Head) -> Principal:
        """Return whose request it is. Raises `Unauthorized`."""
        ...


class KeyGate:
    """Asks for a key, or a session of a browser, on every request. Remembers hashes, never keys."""

    def __init__(self, backend: Backend, session_in: Callable[[Head], str | None] = lambda head: None) -> None:
        """`session_in` finds the secret of a session in a request that has no key."""
        self._backend = backend
        self._session_in = session_in
        self._known: dict[bytes, tuple[Principal, float]] = {}

    async def admit(self, head: Head) -> Principal:
        """Return whose key the request carries. Raises `Unauthorized`.

        Keys are compared by their hashes, so how long it takes tells nothing about how much of a guess was right.
        """
        key = self._session(head) or _bearer(head)
        digest = hashlib.sha256(key.encode()).digest()
        now = asyncio.get_running_loop().time()
        known = self._known.get(digest)
        if known is not None and known[1] > now:
            return known[0]
        principal = await self._backend.authenticate(key)
        if principal is None:
            self._known.pop(digest, None)
            raise _unknown(key)
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[digest] = (principal, now + REMEMBER_SECONDS)
        return principal

    def forget(self, key: str) -> None:
        """Believe a key no longer than until now: its session was ended here."""
        self._known.pop(hashlib.sha256(key.encode()).digest(), None)

    def _session(self, head: Head) -> str | None:
        return None if b"authorization" in head else self._session_in(head)


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
    key = new_key(random)
    await backend.add_key(ADMIN.company, ADMIN.name, key)
    return AdminKey(key, is_new=True)


def _unknown(key: str) -> Unauthorized:
    if not key.startswith(PREFIX):
        return Unauthorized("This browser is not signed in any more. `perdure ui` prints a link that signs it in.")
    return Unauthorized(
        "The API key is not one of this server's, or was revoked. Use the key that `perdure server` showed at its "
        "first start, or one made for you."
    )


def _bearer(head: Head) -> str:
    scheme, _, key = head.get(b"authorization", b"").decode("latin-1").partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or len(key) < _SHORTEST_KEY:
        raise Unauthorized(
            "This route asks for an API key: send `Authorization: Bearer KEY`. Clients take it from api_key=, from "
            "PERDURE_API_KEY, or, on the server's own machine, from its state file."
        )
    return key
