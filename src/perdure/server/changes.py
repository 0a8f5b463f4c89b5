"""Look at a company's executions on behalf of all who watch them here: one task, and none while nobody watches.

Looking finds what any server of the store did, not only this one. A look that fails delays; nothing is missed by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from perdure.core.ids import check_named
from perdure.core.ports import Clock
from perdure.core.schedules import ScheduleView
from perdure.core.views import ExecutionSummary
from perdure.engine.agents import AgentPage, VersionPage, agents_page, versions_page
from perdure.engine.calendar import coming_ticks
from perdure.engine.changes import MOST_COUNTED, Seen, counts_of, look_at
from perdure.engine.logins import keys_view
from perdure.engine.recent import Recent, recent_of
from perdure.errors import PerdureError
from perdure.log import get_log
from perdure.server.bridge import Bridge
from perdure.wire.bodies_screen import CountsView, HeldList, HeldView, KeyName, KeyNames, TickList

log = get_log(__name__)

LOOK_SECONDS = 0.7
"""Between two looks."""


class Watcher:
    """What one who watches has not been told yet: of each execution how it stands now, however often it changed."""

    def __init__(self) -> None:
        self._pending: dict[str, ExecutionSummary] = {}
        self._open: int | None = None
        self._stir = asyncio.Event()

    def take(self, executions: list[ExecutionSummary], open_approvals: int | None) -> None:
        """Keep what a look found. `open_approvals`: how many there are, if that is new."""
        for one in executions:
            self._pending.pop(one.id, None)
            self._pending[one.id] = one
        self._open = self._open if open_approvals is None else open_approvals
        if self._pending or self._open is not None:
            self._stir.set()

    async def news(self) -> tuple[list[ExecutionSummary], int | None]:
        """Wait for something new, and return all of it."""
        await self._stir.wait()
        self._stir.clear()
        found, self._pending = list(self._pending.values()), {}
        open_, self._open = self._open, None
        return found, open_


class Changes:
    """The looks at one company. Lives on the loop of the server that it belongs to."""

    def __init__(self, bridge: Bridge, company: str, clock: Clock) -> None:
        self._bridge = bridge
        self._company = company
        self._clock = clock
        self._watchers: list[Watcher] = []
        self._beginning = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._seen = Seen()

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[Watcher]:
        """Look while the block lasts. The watcher is told of whatever changes after the block was entered."""
        watcher = Watcher()
        async with self._beginning:
            if self._looking is None:
                self._seen = await self._look(Seen())
                self._looking = asyncio.create_task(self._look_on(), name="changes")
            self._watchers.append(watcher)
        try:
            yield watcher
        finally:
            self._watchers.remove(watcher)
            if not self._watchers:
                self._looking.cancel()
                self._looking = None

    async def counts(self, agent: str | None) -> CountsView:
        """Return how many of the company's executions, or of one agent's, are in each state."""
        found = await self._bridge.read(lambda reads: counts_of(reads, self._company, agent))
        return CountsView(found, MOST_COUNTED)

    async def recent(self, hours: int) -> Recent:
        """Return how many of the company's executions were begun in each part of the last `hours` hours."""
        now_ms = self._clock.wall_ms()
        return await self._bridge.read(lambda reads: recent_of(reads, self._company, now_ms, hours))

    async def agents(self, cursor: str | None, limit: int) -> AgentPage:
        """Return a page of the company's agents and durable functions, by name."""
        check_named(cursor=cursor or "")
        return await self._bridge.read(lambda reads: agents_page(reads, self._company, cursor=cursor, limit=limit))

    async def versions(self, agent: str, cursor: str | None, limit: int) -> VersionPage:
        """Return a page of what one of them has been. Raises `InvalidInput` for a cursor that no page gave."""
        check_named(agent=agent)
        return await self._bridge.read(
            lambda reads: versions_page(reads, self._company, agent, cursor=cursor, limit=limit)
        )

    def ticks(self, schedule: ScheduleView, most: int) -> TickList:
        """Return the next ticks of a schedule; while it is paused, those that it would have."""
        first_ms = self._clock.wall_ms() if schedule.next_ms is None else schedule.next_ms
        return TickList(tuple(coming_ticks(schedule.cron, schedule.zone, first_ms - 1, most)))

    async def keys(self) -> KeyNames:
        """Return which keys the company has, and how many browsers are signed in."""
        now_ms = self._clock.wall_ms()
        rows, sessions = await self._bridge.read(lambda reads: keys_view(reads, self._company, now_ms))
        items = (KeyName(row["name"], row["prefix"], row["created_ms"]) for row in rows)
        return KeyNames(tuple(items), sessions)

    async def held(self) -> HeldList:
        """Return how many tasks each of the company's workers has under way."""
        rows = await self._bridge.read(lambda reads: reads.rows("held_by_workers", company=self._company))
        return HeldList(tuple(HeldView(row["worker"], row["held"]) for row in rows))

    async def _look_on(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            try:
                seen = await self._look(self._seen)
            except PerdureError as error:
                log.debug("changes.not_seen", code=error.code)
                continue
            except Exception:
                log.exception("changes.failed", action="will look again")
                continue
            news = seen.news_since(self._seen)
            open_ = seen.approvals[0] if seen.approvals != self._seen.approvals else None
            self._seen = seen
            for watcher in self._watchers:
                watcher.take(news, open_)

    async def _look(self, before: Seen) -> Seen:
        return await self._bridge.read(lambda reads: look_at(reads, self._company, before))
