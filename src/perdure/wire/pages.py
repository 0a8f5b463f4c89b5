"""Lists of one execution, put together from their pages, for those who want the whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from perdure.core.views import EffectView, TaskView
from perdure.wire.api import Api

PAGE = 1_000


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
