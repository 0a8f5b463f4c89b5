"""Hear of what other servers do to a database that several share: look for it, and tell whoever waits in this process.

One read for all who wait, seldom while nothing happens. What it misses is found by those who wait, each by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from perdure.core.codec import Json
from perdure.core.ids import shard_of
from perdure.core.ports import Clock
from perdure.core.work import Lane
from perdure.engine.wake import KEPT_MS
from perdure.errors import Retryable, StoreFailed
from perdure.log import get_log
from perdure.server.bridge import Bridge
from perdure.server.hub import Hub, Topic
from perdure.server.store_time import StoreTime
from perdure.store.protocol import Reads, Row
from perdure.store.sql_store import names
from perdure.store.tx import Note

log = get_log(__name__)

LEAST_SECONDS = 0.1
"""Between two looks while something happens elsewhere."""
MOST_SECONDS = 0.5
"""Between two looks while nothing does."""
SLOWER = 1.5
SILENT_MS = 5_000
"""A database that answers no look for so long counts as gone."""
EVENTS = 200
"""Of one log at a look; the next look goes on there."""

EXECUTOR: Topic = ("elsewhere", "ready")
"""Another server made something ready that servers run."""
_LANE = "lane"
_BETWEEN = "\x1f"


def lane_topic(company: str, lane: Lane) -> Topic:
    """Return under what to listen for tasks that became ready in a lane by another server's doing."""
    return _LANE, _BETWEEN.join((company, lane.queue, lane.agent, lane.tool))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one look found."""

    events: Mapping[str, Sequence[Row]] = field(default_factory=dict[str, Sequence[Row]])
    """By execution: what came after the last that is known."""
    ready: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """By lane: since when its newest is ready."""
    tasks: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """By lane: when the first and the last ready one became due."""
    due: Row | None = None
    """For the sweeps: when the next of each kind of thing is due."""


class Elsewhere:
    """Looks, and publishes to a hub. Run `run` in one task; `saw` is called on the writer's thread."""

    def __init__(self, bridge: Bridge, hub: Hub, clock: Clock) -> None:
        self._bridge = bridge
        self._hub = hub
        self._clock = clock
        self._time = StoreTime(bridge, clock)
        self._heads: dict[str, int] = {}
        """How far logs go that this process wrote to or was told of. Lost entries cost a read."""
        self._last = _Seen()
        self._answered_ms = clock.monotonic_ms()
        self._away = False
        self._next: asyncio.Future[Row | None] | None = None
        """Whoever waits for the next look."""

    def saw(self, notes: Sequence[Note]) -> None:
        """Remember what this process committed itself: no news from elsewhere."""
        for note in notes:
            if note.rows:
                self._heads[note.key] = note.rows[-1]["seq"]

    @property
    def answers(self) -> bool:
        """Whether the database answered the last look, and that not long ago."""
        return not self._away and self._clock.monotonic_ms() - self._answered_ms < SILENT_MS

    async def deadlines(self) -> Row | None:
        """Wait for the next look, and return what it found to be due."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._next)

    async def run(self) -> None:
        """Look until cancelled. Raises only `StoreFailed`."""
        pause = MOST_SECONDS
        while True:
            await self._clock.sleep(pause)
            try:
                found = await self._look()
            except StoreFailed:
                raise
            except Retryable as error:
                self._lost(error)
                found = False
            except Exception:
                log.exception("elsewhere.failed", action="will look again")
                found = False
            else:
                self._back()
            pause = LEAST_SECONDS if found else min(pause * SLOWER, MOST_SECONDS)

    def _lost(self, error: Retryable) -> None:
        if not self._away:
            log.warning("store.away", code=error.code, reason=error.message, action="none: it is waited for")
        self._away = True

    def _back(self) -> None:
        if self._away:
            log.info("store.back")
        self._away = False
        self._answered_ms = self._clock.monotonic_ms()

    async def _look(self) -> bool:
        """Look once and tell; return whether there was anything new."""
        watched = self._hub.heard("events")
        heads = {one: head for one in watched if (head := self._heads.get(one)) is not None}
        self._heads = dict(heads)  # those that nobody waits for are forgotten
        lanes = self._hub.heard("ready")
        tasks = self._hub.heard(_LANE)
        now_ms = await self._time.now_ms() if tasks else 0
        seen = await self._bridge.read(lambda reads: _read(reads, watched, heads, ["", *lanes], tasks, now_ms))
        notes = [*self._of_events(seen), *self._of_ready(seen), *self._of_tasks(seen)]
        self._last = seen
        if self._next is not None and not self._next.done():
            self._next.set_result(seen.due)
        self._next = None
        if notes:
            self._hub.publish(notes)
        return bool(notes)

    def _of_events(self, seen: _Seen) -> list[Note]:
        notes: list[Note] = []
        for execution, rows in seen.events.items():
            if (last := rows[-1]["seq"]) > self._heads.get(execution, 0):  # else it was our own, just now
                self._heads[execution] = last
                notes.append(Note("events", execution, rows=tuple(cast("Iterable[Any]", rows))))
        return notes

    def _of_ready(self, seen: _Seen) -> list[Note]:
        new = [lane for lane, since in seen.ready.items() if since != self._last.ready.get(lane)]
        at_once = [Note("ready", lane) if lane else Note(*EXECUTOR) for lane in new]
        # Again when it is not left any more to the worker that has its live coroutine.
        return [*at_once, *(Note("ready", lane, after_ms=KEPT_MS) for lane in new if lane)]

    def _of_tasks(self, seen: _Seen) -> list[Note]:
        return [Note(_LANE, lane) for lane, due in seen.tasks.items() if due != self._last.tasks.get(lane)]


def _read(
    reads: Reads, watched: list[str], heads: Mapping[str, int], lanes: list[str], tasks: list[str], now_ms: int
) -> _Seen:
    """Look for all of it within one view."""
    ready = reads.rows("newest_ready", wanted=names("newest_ready", dict.fromkeys(lanes, 0)))
    due = reads.rows("ready_tasks_of", wanted=names("ready_tasks_of", _tree(tasks)), now_ms=now_ms) if tasks else ()
    return _Seen(
        _news(reads, watched, heads) if watched else {},
        {row["lane"]: row["since_ms"] for row in ready if row["since_ms"] is not None},
        {
            _BETWEEN.join((row["company"], row["queue"], row["agent"], row["tool"])): (row["first_ms"], row["last_ms"])
            for row in due
            if row["first_ms"] is not None
        },
        reads.row("deadlines"),
    )


def _news(reads: Reads, watched: list[str], heads: Mapping[str, int]) -> dict[str, Sequence[Row]]:
    wanted: dict[str, Json] = {execution: shard_of(execution) for execution in watched}
    found: dict[str, Sequence[Row]] = {}
    for row in reads.rows("heads_of", wanted=names("heads_of", wanted)):
        execution, head = row["id"], row["next_seq"] - 1
        after = heads.get(execution, head - 1)  # of a log never heard of its last event says how far it goes
        if head > after:
            page = reads.rows("events_after", shard=shard_of(execution), execution=execution, after=after, limit=EVENTS)
            if page:
                found[execution] = page
    return found


def _tree(tasks: Iterable[str]) -> dict[str, Json]:
    """Return lanes as the query takes them: company, queue, agent, tool, each below the one before."""
    tree: dict[str, Any] = {}
    for lane in tasks:
        *above, tool = lane.split(_BETWEEN)
        place = tree
        for name in above:
            place = place.setdefault(name, {})
        place[tool] = 0
    return tree
