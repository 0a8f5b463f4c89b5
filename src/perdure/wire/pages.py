"""Lists put together from their pages, for those who want the whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from perdure.core.views import EffectView, ExecutionFilter, ExecutionSummary, FoundPage, Page, TaskView
from perdure.wire.api import Api

PAGE = 1_000
PAGE_FOUND = 500


async def all_tasks(api: Api, execution: str) -> list[TaskView]:
    """Return all tool calls of an execution, in the order they were asked for. Raises `NotFound`."""
    found = page = await api.tasks(execution, limit=PAGE)
    while len(page) == PAGE:
        page = await api.tasks(execution, after=page[-1].scheduled_seq, limit=PAGE)
        found = [*found, *page]
    return found


async def all_effects(api: Api, execution: str, **wanted: Any) -> AsyncIterator[EffectView]:
    """Yield all effects of an execution that are `wanted`, as `Api.effects` takes it, as they were asked for."""
    after = 0
    while page := await api.effects(execution=execution, after=after, **wanted):
        for one in page:
            yield one
        after = max(one.seqs[0] for one in page)


async def listed(
    api: Api, wanted: ExecutionFilter, text: str | None, *, cursor: str | None = None, limit: int
) -> Page | FoundPage:
    """Return executions, newest first, that are `wanted` and have a text, if there is one: `limit`, or all there are.

    For a text it looks on through as many of the server's pages as that takes. Raises as the verbs of `Api`.
    """
    if text is None:
        return await api.executions(
            state=wanted.state,
            agent=wanted.agent,
            since_ms=wanted.since_ms,
            until_ms=wanted.until_ms,
            tag=wanted.tag,
            cursor=cursor,
            limit=limit,
        )
    items: list[ExecutionSummary] = []
    looked_at = 0
    while True:
        rest = min(limit - len(items), PAGE_FOUND)
        page = await api.search_executions(text, wanted, cursor=cursor, limit=rest)
        items += page.items
        looked_at += page.looked_at
        cursor = page.cursor
        if cursor is None or len(items) >= limit:
            return FoundPage(tuple(items), cursor, looked_at)
