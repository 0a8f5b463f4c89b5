"""The verbs about agents that are reached by A2A. A part of `wire.api.Api`."""

from __future__ import annotations

from typing import Protocol

from perdure.core.a2a import PublishedView, PushView
from perdure.core.codec import Json


class A2aApi(Protocol):
    """Which of a company's agents programs that speak A2A may reach."""

    async def published_agents(self) -> list[PublishedView]:
        """Return them by name."""
        ...

    async def publish_agent(self, spec: dict[str, Json], *, description: str = "", by: str = "") -> PublishedView:
        """Let an agent be reached under its name, in place of what was published under it before.

        New tasks begin with this definition, those that began go on with theirs. Raises `InvalidInput` (`bad_agent`,
        `bad_description`).
        """
        ...

    async def withdraw_agent(self, agent: str) -> None:
        """Let an agent be reached no more; what it does goes on. Raises `NotFound` (`no_such_agent`)."""
        ...

    async def pushes(self, *, execution: str | None = None) -> list[PushView]:
        """Return who is to be told of what tasks do, or one task, and how that goes; 1,000 at most, those of the newest
        tasks first."""
        ...
