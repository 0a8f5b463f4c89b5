"""Find a task of a published agent, for its company alone, and say what is said where there is none."""

from __future__ import annotations

from perdure.core.ids import shard_of
from perdure.errors import NotFound
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


def task_of(tx: Tx, company: str, agent: str, execution: str) -> ExecutionRow | NotFound:
    """Return the locked execution of a task. To another company, and under another agent, it is not there."""
    row = tx.execution(execution)
    scope = {"shard": shard_of(execution), "execution": execution, "company": company, "agent": agent}
    if row is None or tx.row("a2a_task", **scope) is None:
        return no_such_task(agent, execution)
    return row


def no_such_agent(agent: str) -> NotFound:
    """Return what is said of an agent that nobody let be reached."""
    return NotFound(
        f"there is no published agent {agent!r}. `perdure a2a list` shows those of your company; "
        "`perdure a2a publish MODULE:AGENT` adds one.",
        code="no_such_agent",
        agent=agent,
    )


def no_such_task(agent: str, execution: str) -> NotFound:
    """Return what is said of a task that is not there, whoever's it is."""
    return NotFound(f"agent {agent!r} has no task {execution}.", execution=execution)
