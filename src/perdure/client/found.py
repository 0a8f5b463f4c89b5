"""How a runtime comes by executions that it need not have begun: by id, or from the list."""

from __future__ import annotations

from datetime import datetime

from perdure.client.handle import AgentHandle, Connection
from perdure.core.views import ExecutionFilter, ExecutionSummary
from perdure.errors import InvalidInput
from perdure.wire.pages import listed


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
        text: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
    ) -> list[ExecutionSummary]:
        """Return executions, newest first; all that is asked for must be so of each.

        `text`: stands in its id, agent, tags or the beginning of its input, whatever its case. No index knows what
        stands in an input: executions are looked at one by one until `limit` are found, so with many say `since` too.
        `since`, `until`: begun from then on, and before then, with a time zone. Raises `InvalidInput`.
        """
        wanted = ExecutionFilter(state, agent, _ms("since", since), _ms("until", until), tag)
        return list((await self.join(listed(self.api, wanted, text, limit=limit))).items)

    def executions(
        self: Connection,
        *,
        state: str | None = None,
        agent: str | None = None,
        tag: str | None = None,
        text: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
    ) -> list[ExecutionSummary]:
        wanted = ExecutionFilter(state, agent, _ms("since", since), _ms("until", until), tag)
        return list(self.wait(listed(self.api, wanted, text, limit=limit)).items)


def _ms(name: str, moment: datetime | None) -> int | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise InvalidInput(
            f"{name} is {moment.isoformat()}, which names no time zone. Give it one: "
            "datetime(…, tzinfo=ZoneInfo('Europe/Berlin')), or datetime.now(UTC) - timedelta(…).",
            fields=[name],
        )
    return round(moment.timestamp() * 1000)
