"""The crash demo as the HTTP edge knows it. A port: whoever starts the server brings one, or none."""

from __future__ import annotations

from typing import Protocol

from perdure.wire.bodies_demo import DemoView


class CrashDemo(Protocol):
    """A run whose worker is a process of its own, there to be killed. Lives on the loop of the HTTP edge."""

    def view(self) -> DemoView:
        """Return how it stands."""
        ...

    async def begin(self, by: str) -> DemoView:
        """Begin a run. On return it is durable. Raises `Conflict` (`demo_runs`) while the one before goes on."""
        ...

    async def kill(self) -> DemoView:
        """Kill the worker and return when it is gone. Raises `Conflict` (`demo_over`, `no_worker`, `no_kills_left`)."""
        ...
