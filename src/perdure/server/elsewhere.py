"""Hear of what other servers do to a database that several share: look for it, and tell whoever waits in this process.

One query for all who wait, seldom while nothing happens. While a look finds nothing of what somebody waits for, they
need not ask themselves. A store of one process's own is looked at after something was written, and seldom otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from perdure.core.codec import Json
from perdure.core.ids import shard_of
from perdure.core.ports import Clock
from perdure.core.work import SERVER_QUEUE, Lane
from perdure.engine.look import CompanyLane, Found, Wanted, look
from perdure.engine.relay import Relayed, Watching, relayed
from perdure.engine.wake import KEPT_MS
from perdure.errors import Retryable, StoreFailed
from perdure.log import get_log
from perdure.server.bridge import Bridge
from perdure.server.hub import Hub, Topic
from perdure.server.live import LIVE
from perdure.server.relay import Relay
from perdure.server.store_time import StoreTime
from perdure.store.protocol import Reads, Row
from perdure.store.sql_store import names
from perdure.store.tx import Note

log = get_log(__name__)

LEAST_SECONDS = 0.1
"""Between two looks while something happens elsewhere."""
MOST_SECONDS = 0.7
"""Between two looks while nothing does: with all else that an idle server asks, two queries in a second."""
OWN_MS = 5_000
"""Between two looks at a store that no other process writes to, and this one did not either."""
SLOWER = 1.5
SILENT_MS = 5_000
"""A database that answers no look for so long counts as gone."""
EVENTS = 200
"""Of one log at a look; the next look goes on there."""

EXECUTOR: Topic = ("elsewhere", "ready")
"""Another server made something ready that servers run."""
SERVED: Topic = ("elsewhere", "served")
"""There is something to do for those that call the servers' tools."""
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
    work: Found = field(default_factory=Found)
    relayed: Relayed = field(default_factory=Relayed)


class Elsewhere:
    """Looks, and publishes to a hub. Run `run` in one task; `saw` is called on the writer's thread."""

    def __init__(self, bridge: Bridge, hub: Hub, clock: Clock, time: StoreTime | None = None) -> None:
        """`time`: that of the one task that calls `deadlines_at_home`, where no other process writes to the store."""
        self._shared = time is None
        self._bridge = bridge
        self._hub = hub
        self._clock = clock
        self._time = time or StoreTime(bridge, clock)
        self._heads: dict[str, int] = {}
        """How far logs go that this process wrote to or was told of. Lost entries cost a read."""
        self._last = Found()
        self._looked: frozenset[str] = frozenset()
        """Topics of tasks that the last look looked for."""
        self._answered_ms = clock.monotonic_ms()
        self._away = False
        self._has_looked = False
        self._commits = 0
        """Of this process, before the last look at a store of its own."""
        self._next: asyncio.Future[Mapping[str, int | None]] | None = None
        """Whoever waits for the next look."""
        self._relay: Relay | None = None

    def saw(self, notes: Sequence[Note]) -> None:
        """Remember what this process committed itself: no news from elsewhere."""
        for note in notes:
            if note.rows:
                self._heads[note.key] = note.rows[-1]["seq"]

    @property
    def answers(self) -> bool:
        """Whether the database answered the last look, and that not long ago."""
        patience_ms = SILENT_MS if self._shared else SILENT_MS + OWN_MS
        return not self._away and self._clock.monotonic_ms() - self._answered_ms < patience_ms

    def no_tasks(self, topics: Iterable[Topic]) -> bool:
        """Say whether the last look found no task due in any of these lanes, given by `lane_topic`. What became ready
        since then is told."""
        keys = [key for _topic, key in topics]
        return (
            self._current and self._looked.issuperset(keys) and not any(_lane(key) in self._last.tasks for key in keys)
        )

    def nothing_ready(self) -> bool:
        """Say whether the last look found no execution ready that servers run."""
        return self._current and "" not in self._last.ready

    def nothing_to_serve(self) -> bool:
        """Say whether the last look found no task due that servers call themselves."""
        return self._current and not self._last.served

    @property
    def _current(self) -> bool:
        return self._has_looked and self.answers

    async def deadlines(self) -> Mapping[str, int | None]:
        """Wait for the next look, and return what it found to be due."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._next)

    async def deadlines_at_home(self, commits: int) -> Mapping[str, int | None]:
        """Return what is due in a store of this process's own, which has committed so often: look if that is new."""
        now_ms = self._clock.monotonic_ms()
        if not self._has_looked or commits != self._commits or now_ms - self._answered_ms >= OWN_MS:
            await self._look()
            self._commits = commits
            self._back()
        return self._last.due

    async def run(self, relay: Relay | None = None) -> None:
        """Look until cancelled, for `relay` too. Raises only `StoreFailed`."""
        self._relay = relay
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
        watched = self._hub.heard("events") if self._shared else []
        heads = {one: head for one in watched if (head := self._heads.get(one)) is not None}
        self._heads = dict(heads)  # those that nobody waits for are forgotten
        lanes = self._hub.heard("ready") if self._shared else []
        tasks = self._hub.heard(_LANE)
        wanted = Wanted(["", *lanes], map(_lane, tasks), [SERVER_QUEUE])
        now_ms = await self._time.now_ms()
        relay = self._relay
        watching = relay.watching(self._hub.heard(LIVE)) if relay is not None else Watching()
        seen = await self._bridge.read(lambda reads: _read(reads, watched, heads, wanted, watching, now_ms))
        live = relay.found(seen.relayed, now_ms) if relay is not None else []
        notes = [*self._of_events(seen), *self._of_work(seen.work), *live]
        self._last, self._looked, self._has_looked = seen.work, frozenset(tasks), True
        if self._next is not None and not self._next.done():
            self._next.set_result(seen.work.due)
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

    def _of_work(self, found: Found) -> list[Note]:
        new = [lane for lane, ends in found.ready.items() if ends != self._last.ready.get(lane)]
        at_once = [Note("ready", lane) if lane else Note(*EXECUTOR) for lane in new]
        # Again when it is not left any more to the worker that has its live coroutine.
        later = [Note("ready", lane, after_ms=KEPT_MS) for lane in new if lane]
        tasks = [lane for lane, due in found.tasks.items() if due != self._last.tasks.get(lane)]
        served = [Note(*SERVED)] if found.served and found.served != self._last.served else []
        return [*at_once, *later, *(Note(*lane_topic(*lane)) for lane in tasks), *served]


def _read(
    reads: Reads, watched: list[str], heads: Mapping[str, int], wanted: Wanted, watching: Watching, now_ms: int
) -> _Seen:
    """Look for all of it within one view."""
    events = _news(reads, watched, heads) if watched else {}
    return _Seen(events, look(reads, wanted, now_ms), relayed(reads, watching, now_ms))


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


def _lane(key: str) -> CompanyLane:
    """Return the lane that a topic's key names."""
    company, queue, agent, tool = key.split(_BETWEEN)
    return company, Lane(agent, tool, queue)
