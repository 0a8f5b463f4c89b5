"""Where the owner of a store listens for processes of the same user that want to share it.

The socket is bound at once and its address told; the HTTP server is only loaded when somebody knocks. Loopback alone,
and a key that only readers of the store's lock file know.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from perdure.core.companies import new_key
from perdure.core.ports import Random
from perdure.engine.keys import DEFAULT_COMPANY, Principal
from perdure.errors import PerdureError, Unauthorized
from perdure.log import get_log
from perdure.server.listen import bind, url_of
from perdure.server.options import Limits, ServeOptions

if TYPE_CHECKING:
    from perdure.server.guard import Head
    from perdure.server.node import Node

log = get_log(__name__)

# Few enough connections that the program's own limit of open files need not be raised.
OPTIONS = ServeOptions(
    host="127.0.0.1", port=0, drain_seconds=1.0, limits=Limits(connections=800, streams=400, polls=400)
)
JOINED = Principal(DEFAULT_COMPANY, "admin")
"""As with the admin key: whoever reads the lock file can read the store, and is believed whom it names."""


class Door:
    """Open from `open` to `close`, both on the loop that serves."""

    def __init__(self, node: Node, random: Random) -> None:
        self._node = node
        self.key = new_key(random)
        """Whoever shows it is this user."""
        self._stop = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._listener = bind(OPTIONS)
        self._listener.setblocking(False)

    def open(self) -> str:
        """Return the address. Whoever connects is answered from now on, the first one after the server was loaded.

        Raises `NotImplementedError` on a loop that cannot watch a socket.
        """
        asyncio.get_running_loop().add_reader(self._listener, self._knocked)
        return url_of(self._listener)

    async def close(self) -> None:
        """Let requests end, for a second at most, and close what is left. Safe to call twice, also if cut short."""
        self._stop.set()
        if self._serving is not None:
            await asyncio.wait((self._serving,))
        elif self._listener.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()

    def _knocked(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)  # whoever knocked waits in the backlog
        self._serving = loop.create_task(self._serve(), name="door")

    async def _serve(self) -> None:
        try:
            serve_at = await asyncio.to_thread(_load)
            await serve_at(self._listener, self._node, OPTIONS, stop=self._stop, gate=_SameUser(self.key))
        except PerdureError as error:  # the store failed: whoever uses the node is told by itself
            log.warning("door.closed", code=error.code, action="none: the store's owner ends")
        except Exception:
            self._node.announce(None, kind="runtime", alone=True)  # so that nobody waits at it
            log.exception("door.broke", action="other processes cannot share this store until its owner is restarted")


class _SameUser:
    """Lets in whoever shows the key."""

    def __init__(self, key: str) -> None:
        self._expected = f"Bearer {key}".encode()

    async def admit(self, head: Head) -> Principal:
        """Return this user. Raises `Unauthorized`."""
        if not hmac.compare_digest(head.get(b"authorization", b""), self._expected):
            raise Unauthorized("this is a program that shares its store with programs of its own user only.")
        return JOINED


def _load() -> Callable[..., Awaitable[None]]:
    """Import what serves HTTP: half a second that only a store that is shared costs."""
    from perdure.server.serve import serve_at  # noqa: PLC0415 - as above

    return serve_at
