"""The journal of an execution that this process owns: straight through the writer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Literal, TypeVar

from perdure.core.events import Event
from perdure.core.items import ActInRoom, HoldAct, Item, ScheduleTask
from perdure.core.ports import Clock
from perdure.engine.claim import LOG_PAGE, Claimed
from perdure.engine.park import Finish, Halt, Park, Released, StillHeld, finish, halt, park
from perdure.engine.query import events_of
from perdure.engine.record import News, Record, lost, record
from perdure.engine.rooms_budget import BUDGET
from perdure.engine.rooms_stops import STOPPED, HaltWake, Whom, halt_wake, stop_on
from perdure.engine.rooms_wake_acts import Acts, Stopped, act_in_room
from perdure.errors import LeaseLost, Retryable, Unreachable
from perdure.flow import bodies as flow_bodies
from perdure.server.bridge import Bridge
from perdure.store.operation import Operation
from perdure.store.protocol import EVERY_COMPANY, Reads, Ref

T = TypeVar("T")

PAUSE_SECONDS = 1.0
"""While the disk is full, or the database too busy or away."""


class DirectJournal:
    """`Journal` under one fence. While the store cannot take anything it waits, and loses nothing of what it holds."""

    def __init__(self, bridge: Bridge, clock: Clock, ref: Ref, fence: int, company: str = "") -> None:
        """`company`: of the worker whose journal it is; empty for a server."""
        self._bridge = bridge
        self._clock = clock
        self._ref = ref
        self._fence = fence
        self._company = company

    async def record(self, seen: int, items: Sequence[Item]) -> list[Event]:
        return events_of((await self._record(seen, items)).events)

    async def record_previewed(self, seen: int, items: Sequence[Item]) -> list[Event] | None:
        events = (await self._record(seen, items, previewed=True)).events
        first = bool(events) and events[0]["address"] == items[0].address
        return events_of(events[1:]) if first else None

    async def _record(self, seen: int, items: Sequence[Item], *, previewed: bool = False) -> News:
        return await self._write(record, Record(self._ref, self._fence, seen, tuple(items), self._company, previewed))

    async def events(self, after: int) -> list[Event]:
        return await patiently(self._clock, partial(self._read, after))

    async def _read(self, after: int) -> list[Event]:
        """Read the log above `after`, page by page."""
        events: list[Event] = []
        while True:
            page = await self._bridge.read(partial(self._page, after=after))
            events += page
            if len(page) < LOG_PAGE:
                return events
            after = page[-1].seq

    def _page(self, reads: Reads, after: int) -> list[Event]:
        scope = {"shard": self._ref.shard, "execution": self._ref.execution}
        now = reads.row("holder_of", **scope)
        # Whoever holds it no more must not be told of news: it would be told to nobody else.
        if now is None or now["fence"] != self._fence or self._company not in ("", now["company"]):
            raise lost(self._ref)
        return events_of(reads.rows("events_after", **scope, after=after, limit=LOG_PAGE))

    async def park(self, seen: int, active_ms: int) -> list[Event]:
        answer = await self._write(park, Park(self._ref, self._fence, seen, active_ms, self._company))
        return events_of(answer.events) if isinstance(answer, News) else []

    async def finish(
        self, seen: int, active_ms: int, event: Literal["complete", "fail", "end"], data: str
    ) -> list[Event] | Literal["ended", "held"]:
        row = Finish(self._ref, self._fence, seen, active_ms, event, data, self._company)
        answer: Released | StillHeld | News = await self._write(finish, row)
        match answer:
            case News():
                return events_of(answer.events)
            case StillHeld():
                return "held"
            case Released():
                return "ended"

    async def halt(self, event: Literal["pause", "stick"], reason: str, message: str) -> None:
        await self._write(halt, Halt(self._ref, self._fence, event, reason, message, self._company))

    async def _write(self, operation: Operation[Any, Any], row: Any) -> Any:
        while True:
            try:
                answer = await self._bridge.run(operation, row)
            except Retryable as error:
                if error.code == "shutting_down":
                    raise
                await self._clock.sleep(PAUSE_SECONDS)
                continue
            if isinstance(answer, LeaseLost):
                raise answer
            return answer


class RoomJournal(DirectJournal):
    """The journal of a wake: what it does in its room is recorded by the operation that does it.

    What a stop or a budget pauses is paused only if that is still so, and goes on when it is over.
    """

    def __init__(self, bridge: Bridge, clock: Clock, claimed: Claimed, room: str) -> None:
        super().__init__(bridge, clock, claimed.ref, claimed.fence)
        self._room = room
        self._whose = Whom(claimed.company, claimed.agent)

    async def halt(self, event: Literal["pause", "stick"], reason: str, message: str) -> None:
        if reason not in (STOPPED, BUDGET):
            await super().halt(event, reason, message)
            return
        await self._write(halt_wake, HaltWake(self._ref, self._fence, self._room, self._whose, reason, message))

    async def record(self, seen: int, items: Sequence[Item]) -> list[Event]:
        """Write what is asked for together in as few commits as it has kinds in a row."""
        events: list[Event] = []
        for in_room, group in groupby(items, lambda item: isinstance(item, ActInRoom | HoldAct)):
            if in_room:
                acts = tuple(item for item in group if isinstance(item, ActInRoom | HoldAct))
                answer = await self._write(act_in_room, Acts(self._ref, self._fence, seen, acts))
                if isinstance(answer, Stopped):
                    raise flow_bodies.Halt("pause", STOPPED, answer.why)
                events = events_of(answer.events)
            else:
                events = await self._record_unless_stopped(seen, tuple(group))
        return events

    async def _record_unless_stopped(self, seen: int, items: Sequence[Item]) -> list[Event]:
        """Begin no call once the agent is stopped: it was judged by a commit before, which may be long ago where a
        server died in between. What was done is recorded all the same."""
        calls = any(isinstance(item, ScheduleTask) for item in items)
        stopped = await patiently(self._clock, partial(self._bridge.read, self._stopped)) if calls else ""
        kept = tuple(item for item in items if not (stopped and isinstance(item, ScheduleTask)))
        events = await super().record(seen, kept) if kept else []
        if stopped:
            raise flow_bodies.Halt("pause", STOPPED, stopped)
        return events

    def _stopped(self, reads: Reads) -> str:
        reads.speak_for(EVERY_COMPANY)  # as at the gate of a model: a stop holds also who has left the room
        return stop_on(reads, self._room, *self._whose)


async def patiently(clock: Clock, look: Callable[[], Awaitable[T]]) -> T:
    """Do what only reads; while the store does not answer, wait and do it again."""
    while True:
        try:
            return await look()
        except Unreachable:
            await clock.sleep(PAUSE_SECONDS)
