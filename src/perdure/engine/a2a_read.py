"""Read what the A2A door shows: published agents, and tasks as their executions' logs have them. Changes nothing."""

from __future__ import annotations

from perdure.core.a2a import TOLD_KINDS, A2aPage, A2aQuery, A2aTask, PublishedView
from perdure.core.ids import check_named, shard_of
from perdure.engine.a2a_task import no_such_agent, no_such_task
from perdure.engine.query import events_of_kinds
from perdure.errors import InvalidInput
from perdure.store.protocol import Reads, Row
from perdure.store.sql_store import MAX_INTEGER


def published_agents(reads: Reads, company: str) -> list[PublishedView]:
    """Return a company's published agents, by name."""
    return [_published(row) for row in reads.rows("a2a_agents", company=company)]


def published_agent(reads: Reads, company: str, agent: str) -> PublishedView:
    """Return one of them. Raises `NotFound` (`no_such_agent`)."""
    check_named(agent=agent)
    row = reads.row("a2a_agent", company=company, agent=agent)
    if row is None:
        raise no_such_agent(agent)
    return _published(row)


def a2a_task(reads: Reads, company: str, agent: str, execution: str) -> A2aTask:
    """Return a task as it stands. Raises `NotFound`, the same for another company's and another agent's."""
    scope = {"shard": shard_of(execution), "execution": execution, "company": company, "agent": agent}
    row = reads.row("a2a_task", **scope)
    if row is None:
        raise no_such_task(agent, execution)
    return _task(reads, agent, execution, row)


def a2a_tasks(reads: Reads, company: str, agent: str, query: A2aQuery) -> A2aPage:
    """Return a page of an agent's tasks, those that changed last first. Raises `InvalidInput` (`bad_cursor`)."""
    before_ms, before = _place(query.cursor)
    wanted = {
        "company": company,
        "agent": agent,
        "context": query.context,
        "ended": query.ended,
        "going_on": int(query.going_on),
        "since_ms": query.since_ms,
    }
    rows = reads.rows("a2a_tasks", **wanted, before_ms=before_ms, before=before, limit=query.limit + 1)
    total = reads.row("count_a2a_tasks", **wanted)
    shown = rows[: query.limit]
    cursor = f"{shown[-1]['updated_ms']}:{shown[-1]['execution']}" if len(rows) > query.limit else ""
    items = tuple(_task(reads, agent, row["execution"], row) for row in shown)
    return A2aPage(items, cursor, total["n"] if total is not None else 0)


def _place(cursor: str) -> tuple[int, str]:
    if not cursor:
        return MAX_INTEGER, ""
    at_ms, _, execution = cursor.partition(":")
    if not at_ms.isdigit() or len(at_ms) > 18 or not execution:
        raise InvalidInput(f"pageToken {cursor[:80]!r} is none that a page gave. Start without one.", code="bad_cursor")
    check_named(pageToken=execution)
    return int(at_ms), execution


def _task(reads: Reads, agent: str, execution: str, row: Row) -> A2aTask:
    last_seq = row["next_seq"] - 1
    events = events_of_kinds(reads, execution, TOLD_KINDS)
    known = tuple(event for event in events if event.seq <= last_seq)
    return A2aTask(execution, agent, row["context"], row["message"], last_seq, row["updated_ms"], known)


def _published(row: Row) -> PublishedView:
    said = (row["agent"], row["description"], row["definition"], row["published_by"], row["published_ms"])
    return PublishedView(*said)
