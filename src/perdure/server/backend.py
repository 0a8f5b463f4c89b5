"""What the HTTP edge needs of the process behind it. A port: the node provides it, nothing here knows a store."""

from __future__ import annotations

from typing import Protocol

from perdure.core.hooks import Hook
from perdure.core.views import ServerInfo
from perdure.doors.a2a_seat import A2aTasks
from perdure.engine.keys import Principal
from perdure.errors import PerdureError
from perdure.server.changes import Changes
from perdure.wire.api import Api, FunctionSource, TaskSource


class Backend(Protocol):
    """Asked on every request: all of it is cheap, and none of it blocks the loop."""

    @property
    def accepting(self) -> bool:
        """False once `drain` was called or the store failed: requests are refused with `draining`."""
        ...

    @property
    def failure(self) -> PerdureError | None:
        """Why this process cannot go on (`StoreFailed`). The server then drains and `serve` raises it."""
        ...

    def ready(self) -> bool:
        """Say whether the store answers and the executor runs."""
        ...

    def info(self) -> ServerInfo:
        """Return who this is, from memory."""
        ...

    def api(self, company: str) -> Api:
        """Return the verbs of one company. Called on every request: a dictionary look-up."""
        ...

    def tasks(self, company: str) -> TaskSource:
        """Return the queues of one company. Called on every request of a worker: a dictionary look-up."""
        ...

    def functions(self, company: str) -> FunctionSource:
        """Return the durable functions of one company. Called as `tasks` is."""
        ...

    def changes(self, company: str) -> Changes:
        """Return the looks at one company's executions. Called as `api` is."""
        ...

    @property
    def pushes(self) -> bool:
        """Whether this server tells others of what A2A tasks do."""
        ...

    def a2a(self, company: str) -> A2aTasks:
        """Return the tasks of one company's published agents. Called as `api` is."""
        ...

    async def authenticate(self, key: str) -> Principal | None:
        """Return whose key it is, or for whom a session acts, or None if it is unknown, revoked or over. The edge
        remembers an answer for seconds."""
        ...

    async def add_link(self, who: Principal, secret: str) -> int:
        """Keep a link that signs a browser in, and return when it ends."""
        ...

    async def redeem(self, link: str, session: str) -> Principal | None:
        """Exchange a link for a session, once among all servers of the store; None if it is not good (any more)."""
        ...

    async def end_session(self, session: str) -> None:
        """Forget a session. On return that is durable."""
        ...

    async def knows_token(self, secret: str) -> bool:
        """Say whether a wait was ever opened with this secret. Only reads, so that guesses cost no write."""
        ...

    async def hook(self, secret: str) -> Hook | None:
        """Return what a hook's secret stands for. Only reads, as above."""
        ...

    async def say(self, hook: Hook, text: str, key: str) -> None:
        """Say what came at a hook, once under its key. On return it is durable."""
        ...

    async def add_key(self, company: str, name: str, key: str) -> None:
        """Store the hash of a new key. On return it is durable."""
        ...

    def drain(self) -> None:
        """Take nothing more. From now on the end of an `alive` stream says nothing about its worker: this process is
        the one that leaves, so no lease shrinks."""
        ...
