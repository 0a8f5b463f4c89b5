"""How a runtime comes by executions that it need not have begun: by id, or from the list."""

from __future__ import annotations

from perdure.client.handle import AgentHandle, Connection
from perdure.core.views import ExecutionSummary


class Found:
    """The verbs that find executions, for a runtime to have."""

    def attach(self: Connection, execution_id: str) -> AgentHandle:
        """Return a handle on any execution, by its id alone."""
        return AgentHandle(execution_id, self)

    async def executions_async(
        self: Connection,
        *,
        state: str | None = None,
        agent: str | None = None,
        tag: str | None = None,
        limit: int = 50,
    ) -> list[ExecutionSummary]:
        """Return executions, newest first; all that is asked for must be so of each."""
        return list((await self.join(self.api.executions(state=state, agent=agent, tag=tag, limit=limit))).items)

    def executions(
        self: Connection,
        *,
        state: str | None = None,
        agent: str | None = None,
        tag: str | None = None,
        limit: int = 50,
    ) -> list[ExecutionSummary]:
        return list(self.wait(self.api.executions(state=state, agent=agent, tag=tag, limit=limit)).items)
