"""What one A2A request may ask of the server: the agent that it is for, and the company that it comes from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from perdure.core.a2a import A2aMessage, A2aPage, A2aQuery, A2aTask, Accepted, PublishedView, PushConfig
from perdure.core.events import Event

SEAT = "perdure.a2a"
"""Where the seat stands in the ASGI scope, and in what the SDK calls a request's context."""


class A2aTasks(Protocol):
    """The tasks of one company's agents. All is in the store: any server answers the next request."""

    async def published(self, agent: str) -> PublishedView:
        """Return a published agent. Raises `NotFound` (`no_such_agent`)."""
        ...

    async def accept(self, agent: str, message: A2aMessage, *, by: str) -> Accepted:
        """Take a message, once however often it is sent. On return it is durable.

        Raises `NotFound`, `InvalidInput`, and `Conflict` as `engine.a2a.accept_message` refuses.
        """
        ...

    async def task(self, agent: str, execution: str) -> A2aTask:
        """Return a task as it stands. Raises `NotFound`."""
        ...

    async def tasks(self, agent: str, query: A2aQuery) -> A2aPage:
        """Return a page of tasks. Raises `InvalidInput` (`bad_cursor`)."""
        ...

    def follow(self, execution: str, *, after: int) -> AsyncIterator[Event]:
        """Yield what comes behind an event of the log, without gap or repeat, until the execution has ended."""
        ...

    async def cancel(self, execution: str, *, by: str) -> None:
        """Ask a task to leave off. Raises `Conflict` (`ended`)."""
        ...

    async def set_push(self, agent: str, execution: str, push: PushConfig) -> None:
        """Have somebody told of what a task does from now on; one known by this id is told where it was left.

        Raises `NotFound`, `InvalidInput` (`bad_push`), `LimitExceeded` (`too_many_pushes`).
        """
        ...

    async def pushes(self, agent: str, execution: str) -> list[PushConfig]:
        """Return who is told of a task, without their credentials. Raises `NotFound`."""
        ...

    async def delete_push(self, agent: str, execution: str, id: str) -> None:
        """Have somebody told no more; again changes nothing. Raises `NotFound` where there is no such task."""
        ...


@dataclass(frozen=True, slots=True)
class Seat:
    """Who asks, and for which agent."""

    agent: str
    by: str
    """Who stands in the log."""
    tasks: A2aTasks
    pushes: bool
    """Whether this store's servers tell anybody."""
    hold: Callable[[Callable[[], Coroutine[Any, Any, None]]], Awaitable[None]]
    """Does something for as long as the client is there and the server stays, and not for ever."""
