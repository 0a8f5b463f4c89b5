"""One request, once the guard and the gate have let it in: what every handler is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from starlette.requests import Request
from starlette.types import Receive, Send

from perdure.core.companies import SPEAKS_FOR_ALL
from perdure.engine.keys import Principal
from perdure.server.changes import Changes
from perdure.server.crash_demo import CrashDemo
from perdure.server.guard import Head
from perdure.server.options import Limits
from perdure.server.stream import Streams
from perdure.wire.api import Api, FunctionSource, TaskSource
from perdure.wire.bodies_screen import LinkView

CALL = "perdure.call"
"""Where the call stands in the ASGI scope."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request with its body read and parsed."""

    principal: Principal
    api: Api
    """The verbs of the caller's company, and of no other."""
    tasks: TaskSource
    functions: FunctionSource
    head: Head
    raw: bytes
    body: Any
    """The parsed JSON; None without a body."""
    streams: Streams
    limits: Limits
    receive: Receive
    send: Send
    changes: Changes
    """What happens to the company's executions."""
    known_by: Literal["key", "session", "nothing"]
    """What said whose request it is."""
    new_link: Callable[[], Awaitable[LinkView]]
    """Make a link that signs a browser in as the caller."""
    demo: CrashDemo | None = None
    """The crash demo that this server plays for whoever runs it; None: it plays none."""

    def by(self, given: str) -> str:
        """Return who is to stand in the log: the key's name, to which the caller may add one.

        The admin key, and a server that asks for no key, are believed whom they name.
        """
        own = self.identity(given)
        return own if not given or given == own else f"{own} ({given})"

    def identity(self, given: str) -> str:
        """Return who it is for rules about people: the key's name and nothing else, unless it speaks for all."""
        own = self.principal.name
        return given or own if own in SPEAKS_FOR_ALL else own


async def call_of(request: Request) -> Call:
    """Return the call of a request: a dependency of the control routes. The framework would run a plain function in a
    thread."""
    return request.scope[CALL]
