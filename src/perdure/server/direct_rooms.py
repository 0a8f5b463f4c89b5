"""The verbs about rooms in-process: straight to the engine through the bridge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from perdure.core.budgets import Budget, BudgetView, check_budget
from perdure.core.chain import LogPage
from perdure.core.codec import Json
from perdure.core.ids import new_id
from perdure.core.ports import Clock, Embedder, Random
from perdure.core.room_search import KINDS, SearchKind, SearchPage, check_search
from perdure.core.room_views import (
    MemoryView,
    MessageView,
    RightsView,
    RoomTaskView,
    RoomView,
    StopView,
    WakeView,
    WentOn,
)
from perdure.core.rooms import (
    MAX_WAIT_SECONDS,
    Act,
    Actor,
    Leave,
    OnCrash,
    OpenTask,
    Post,
    PutAgent,
    Remember,
    Written,
    check_act,
    check_name,
    written_id,
)
from perdure.engine.room_search import Search, search
from perdure.engine.rooms import MakeRoom, Write, make_room, write_in_room
from perdure.engine.rooms_budget import SetBudget, budgets_view, set_budget
from perdure.engine.rooms_members import standing
from perdure.engine.rooms_read import (
    Window,
    check_joined,
    ledger_page,
    memory_view,
    messages_view,
    room_task_view,
    room_view,
    rooms_view,
    tasks_view,
    wakes_view,
)
from perdure.engine.rooms_rights import rights_view
from perdure.engine.rooms_stops import Start, Started, start_in_room, stops_view
from perdure.errors import InvalidInput, NotFound
from perdure.rooms.spec import wake_definition
from perdure.server.bridge import Bridge
from perdure.server.hub import Hub, stirred
from perdure.server.store_time import StoreTime
from perdure.store.protocol import Reads

T = TypeVar("T")
MOST = 1_000
POLL_SECONDS = 5.0
"""How often whoever waits looks without a hint."""
NOBODY = "member"
"""Who writes where nobody says who."""


class DirectRooms:
    """`RoomsApi` of one company."""

    def __init__(
        self,
        bridge: Bridge,
        company: str,
        clock: Clock,
        random: Random,
        hub: Hub,
        look_time: StoreTime,
        embedder: Embedder | None,
    ) -> None:
        self._bridge, self._company, self._look_time = bridge, company, look_time
        self._clock, self._random, self._hub, self._embedder = clock, random, hub, embedder

    async def rooms(self) -> list[RoomView]:
        return await self._read(lambda reads: rooms_view(reads, self._company))

    async def room(self, room: str, *, after: int = 0, wait_seconds: float = 0.0) -> RoomView:
        if not 0 <= wait_seconds <= MAX_WAIT_SECONDS:
            raise InvalidInput(f"wait_seconds should be 0 to {MAX_WAIT_SECONDS:g}, found {wait_seconds}.")
        look = partial(room_view, company=self._company, room=room)
        if not wait_seconds:
            return await self._read(look)
        end_ms = self._clock.monotonic_ms() + round(wait_seconds * 1000)
        stir = asyncio.Event()
        with self._hub.listening([("events", room)], lambda _: stir.set()):
            while True:
                stir.clear()  # before looking: what comes meanwhile is seen, or stirs again
                found = await self._read(look)
                left_ms = end_ms - self._clock.monotonic_ms()
                if found.last_seq > after or left_ms <= 0:
                    return found
                await stirred(stir, min(left_ms / 1000, POLL_SECONDS))

    async def create_room(self, name: str, *, key: str = "", by: str = "") -> Written:
        check_name(name)
        id = written_id("room", self._company, key or self._chance())
        return await self._bridge.run(make_room, MakeRoom(id, name, self._actor(by)))

    async def put_room_agent(
        self, room: str, spec: dict[str, Json], *, on_crash: OnCrash = "resume", by: str = ""
    ) -> Written:
        name, digest, text = wake_definition(spec, on_crash)
        return await self.write_in_room(room, PutAgent(name, digest, text, on_crash), by=by)

    async def write_in_room(self, room: str, act: Act, *, by: str = "") -> Written:
        check_act(act)
        if isinstance(act, Post | OpenTask | Remember) and not act.key:
            act = replace(act, key=self._chance())  # the store may run it twice
        if isinstance(act, Remember):
            act = replace(act, salt=self._chance())
        write = Write(room, self._actor(by), act)
        return await (self._leave(write) if isinstance(act, Leave) else self._bridge.ask(write_in_room, write))

    async def _leave(self, write: Write) -> Written:
        """Leave a room, which then is not there for the company: so also for a second run of what was committed."""
        there = await self._read(lambda reads: standing(reads, write.room, self._company))
        try:
            return await self._bridge.ask(write_in_room, write)
        except NotFound:
            if there is None:
                raise
            return Written(write.room, 0, created=False)

    async def room_messages(
        self, room: str, *, after: int = 0, limit: int = 200, thread: str = ""
    ) -> list[MessageView]:
        window = window_of(after, limit)
        return await self._read(lambda reads: messages_view(reads, self._company, room, window, thread))

    async def room_tasks(
        self, room: str, *, after: int = 0, limit: int = 200, state: str = "", to: str = ""
    ) -> list[RoomTaskView]:
        look = partial(tasks_view, company=self._company, room=room, window=window_of(after, limit), state=state, to=to)
        return await self._read(look)

    async def room_task(self, room: str, task: str) -> RoomTaskView:
        return await self._read(lambda reads: room_task_view(reads, self._company, room, task))

    async def room_memory(self, room: str, *, after: int = 0, limit: int = 200) -> list[MemoryView]:
        window = window_of(after, limit)
        return await self._read(lambda reads: memory_view(reads, self._company, room, window))

    async def search_room(
        self, room: str, query: str, *, kinds: Sequence[SearchKind] = (), limit: int = 20, cursor: str = ""
    ) -> SearchPage:
        check_search(kinds, limit)
        wanted = Search(query, tuple(kinds) or KINDS, limit, cursor)
        return await self._read(lambda reads: search(reads, self._company, room, wanted, self._embedder))

    async def room_wakes(self, room: str, *, limit: int = 200) -> list[WakeView]:
        window = window_of(0, limit)
        return await self._read(lambda reads: wakes_view(reads, self._company, room, window.limit))

    async def room_ledger(self, room: str, *, after: int = 0, limit: int = 200) -> LogPage:
        window = window_of(after, limit)
        return await self._read(lambda reads: ledger_page(reads, self._company, room, window))

    async def room_rights(self, room: str) -> RightsView:
        def look(reads: Reads) -> RightsView:
            check_joined(reads, self._company, room)
            return rights_view(reads, self._company, room)

        return await self._read(look)

    async def start_room(self, room: str, member: str = "", *, by: str = "") -> WentOn:
        wakes, lifted = 0, False
        while True:
            done: Started = await self._bridge.ask(start_in_room, Start(room, self._actor(by), member))
            wakes, lifted = wakes + done.went_on, lifted or done.seq > 0
            if not done.left:
                return WentOn(lifted, wakes)

    async def room_stops(self, room: str) -> list[StopView]:
        def look(reads: Reads) -> list[StopView]:
            check_joined(reads, self._company, room)
            return stops_view(reads, room)

        return await self._read(look)

    async def room_budgets(self) -> list[BudgetView]:
        now_ms = await self._look_time.now_ms()
        return await self._read(lambda reads: budgets_view(reads, self._company, now_ms))

    async def set_room_budget(self, budget: Budget, *, remove: bool = False, by: str = "") -> None:
        check_budget(budget)
        if not remove and budget.usd is None and budget.tokens is None:
            raise InvalidInput("a budget has a cap: usd, tokens, or both. Remove it to have none.", code="bad_budget")
        await self._bridge.run(set_budget, SetBudget(self._actor(by), budget, remove))

    async def _read(self, query: Callable[[Reads], T]) -> T:
        """Read in the company's name: what the application forgot to leave out, the store's wall does."""

        def spoken(reads: Reads) -> T:
            reads.speak_for(self._company)
            return query(reads)

        return await self._bridge.read(spoken)

    def _actor(self, by: str) -> Actor:
        if by:
            check_name(by)
        return Actor(self._company, by or NOBODY)

    def _chance(self) -> str:
        return new_id("key", self._clock, self._random)


def window_of(after: int, limit: int) -> Window:
    """Return a stretch of what a room holds. Raises `InvalidInput`."""
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"limit should be 1 to {MOST}, found {limit}.")
    if not 0 <= after < 2**63:
        raise InvalidInput(f"after should be a place in the room's ledger, found {after}.")
    return Window(after, limit)
