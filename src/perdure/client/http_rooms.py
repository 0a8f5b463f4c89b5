"""The verbs about rooms over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.client.channel import Ask, OverHttp
from perdure.core import codec as json
from perdure.core.budgets import Budget, BudgetView
from perdure.core.chain import LogPage
from perdure.core.codec import Json
from perdure.core.room_search import SearchKind, SearchPage, asked_words
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
    Act,
    ChangeTask,
    Invite,
    Join,
    Leave,
    OnCrash,
    OpenTask,
    Post,
    Remember,
    RemoveAgent,
    SetRights,
    Stop,
    Written,
)
from perdure.errors import InternalError
from perdure.wire import bodies, codec, routes
from perdure.wire import bodies_rooms as shapes

REPLY_SECONDS = 30.0
"""How long to wait for a reply, beyond what the server was asked to wait."""


class HttpRooms(OverHttp):
    """`RoomsApi` over HTTP. What is sent without a key gets one, so that sending it again does it once."""

    async def rooms(self) -> list[RoomView]:
        found = codec.load(shapes.RoomList, await self._channel.call(Ask("rooms", "GET", routes.ROOMS)))
        return list(found.items)

    async def room(self, room: str, *, after: int = 0, wait_seconds: float = 0.0) -> RoomView:
        query: dict[str, str | int] = {"after": after, "wait_seconds": str(wait_seconds)} if wait_seconds else {}
        path = routes.fill(routes.ROOM, room=room)
        ask = Ask("room", "GET", path, query, reply_seconds=REPLY_SECONDS + wait_seconds)
        return codec.load(RoomView, await self._channel.call(ask))

    async def create_room(self, name: str, *, key: str = "", by: str = "") -> Written:
        body = codec.dump_given(shapes.RoomBody(name, key or self._new_key(), by))
        return codec.load(Written, await self._channel.call(Ask("create_room", "POST", routes.ROOMS, body=body)))

    async def put_room_agent(
        self, room: str, spec: dict[str, Json], *, on_crash: OnCrash = "resume", by: str = ""
    ) -> Written:
        body = codec.dump_given(shapes.AgentBody(spec, on_crash, by))
        ask = Ask("put_room_agent", "PUT", routes.fill(routes.ROOM_AGENTS, room=room), body=body)
        return codec.load(Written, await self._channel.call(ask))

    async def write_in_room(self, room: str, act: Act, *, by: str = "") -> Written:
        method, path, body = self._request(room, act, by)
        sent = None if body is None else codec.dump_given(body)
        # A leave is not sent again once it may have arrived: the second would say that there is no such room.
        ask = Ask("write_in_room", method, path, body=sent, safe=not isinstance(act, Leave))
        return codec.load(Written, await self._channel.call(ask))

    def _request(self, room: str, act: Act, by: str) -> tuple[str, str, codec.Shape | None]:
        match act:
            case Post(text, to, thread, key):
                body = shapes.PostBody(text, to, thread, key or self._new_key(), by)
                return "POST", routes.fill(routes.ROOM_MESSAGES, room=room), body
            case OpenTask(title, to, thread, key):
                task = shapes.RoomTaskBody(title, to, thread, key or self._new_key(), by)
                return "POST", routes.fill(routes.ROOM_TASKS, room=room), task
            case ChangeTask(task, verb, result):
                change = shapes.TaskChangeBody(verb, result, by)
                return "POST", routes.fill(routes.ROOM_TASK, room=room, task=task), change
            case Remember(text, readers, source, key):
                line = shapes.RememberBody(text, readers, source, key or self._new_key(), by)
                return "POST", routes.fill(routes.ROOM_MEMORY, room=room), line
            case Invite(company):
                return "POST", routes.fill(routes.ROOM_INVITE, room=room), shapes.InviteBody(company, by)
            case Join():
                return "POST", routes.fill(routes.ROOM_JOIN, room=room), bodies.ByBody(by)
            case Leave():
                return "POST", routes.fill(routes.ROOM_LEAVE, room=room), bodies.ByBody(by)
            case SetRights(document):
                said = shapes.RightsBody(json.decode(document), by)
                return "PUT", routes.fill(routes.ROOM_RIGHTS, room=room), said
            case Stop(member, reason):
                return "POST", routes.fill(routes.ROOM_STOP, room=room), shapes.StopBody(member, reason, by)
            case RemoveAgent(name):
                return "DELETE", routes.fill(routes.ROOM_AGENT, room=room, agent=name), None
            case _:
                raise InternalError(f"{type(act).__name__} is done by servers alone")

    async def room_messages(
        self, room: str, *, after: int = 0, limit: int = 200, thread: str = ""
    ) -> list[MessageView]:
        query: dict[str, str | int] = {"after": after, "limit": limit, **({"thread": thread} if thread else {})}
        ask = Ask("room_messages", "GET", routes.fill(routes.ROOM_MESSAGES, room=room), query)
        return list(codec.load(shapes.MessageList, await self._channel.call(ask)).items)

    async def room_tasks(
        self, room: str, *, after: int = 0, limit: int = 200, state: str = "", to: str = ""
    ) -> list[RoomTaskView]:
        wanted = {name: value for name, value in (("state", state), ("to", to)) if value}
        query: dict[str, str | int] = {"after": after, "limit": limit, **wanted}
        ask = Ask("room_tasks", "GET", routes.fill(routes.ROOM_TASKS, room=room), query)
        return list(codec.load(shapes.RoomTaskList, await self._channel.call(ask)).items)

    async def room_task(self, room: str, task: str) -> RoomTaskView:
        ask = Ask("room_task", "GET", routes.fill(routes.ROOM_TASK, room=room, task=task))
        return codec.load(RoomTaskView, await self._channel.call(ask))

    async def room_memory(self, room: str, *, after: int = 0, limit: int = 200) -> list[MemoryView]:
        query: dict[str, str | int] = {"after": after, "limit": limit}
        ask = Ask("room_memory", "GET", routes.fill(routes.ROOM_MEMORY, room=room), query)
        return list(codec.load(shapes.MemoryList, await self._channel.call(ask)).items)

    async def search_room(
        self, room: str, query: str, *, kinds: Sequence[SearchKind] = (), limit: int = 20, cursor: str = ""
    ) -> SearchPage:
        words = " ".join(asked_words(query))  # nothing else of it counts, and an address holds only so much
        asked: dict[str, str | int] = {"query": words, "limit": limit}
        asked |= {**({"kinds": ",".join(kinds)} if kinds else {}), **({"cursor": cursor} if cursor else {})}
        ask = Ask("search_room", "GET", routes.fill(routes.ROOM_SEARCH, room=room), asked)
        return codec.load(SearchPage, await self._channel.call(ask))

    async def room_wakes(self, room: str, *, limit: int = 200) -> list[WakeView]:
        ask = Ask("room_wakes", "GET", routes.fill(routes.ROOM_WAKES, room=room), {"limit": limit})
        return list(codec.load(shapes.WakeList, await self._channel.call(ask)).items)

    async def room_rights(self, room: str) -> RightsView:
        ask = Ask("room_rights", "GET", routes.fill(routes.ROOM_RIGHTS, room=room))
        return codec.load(RightsView, await self._channel.call(ask))

    async def start_room(self, room: str, member: str = "", *, by: str = "") -> WentOn:
        body = codec.dump_given(shapes.StartBody(member, by))
        ask = Ask("start_room", "POST", routes.fill(routes.ROOM_START, room=room), body=body)
        return codec.load(WentOn, await self._channel.call(ask))

    async def room_stops(self, room: str) -> list[StopView]:
        ask = Ask("room_stops", "GET", routes.fill(routes.ROOM_STOPS, room=room))
        return list(codec.load(shapes.StopList, await self._channel.call(ask)).items)

    async def room_budgets(self) -> list[BudgetView]:
        ask = Ask("room_budgets", "GET", routes.ROOM_BUDGETS)
        return list(codec.load(shapes.BudgetList, await self._channel.call(ask)).items)

    async def set_room_budget(self, budget: Budget, *, remove: bool = False, by: str = "") -> None:
        caps = (None, None, None) if remove else (budget.usd, budget.tokens, budget.unpriced_usd)
        body = codec.dump_given(shapes.BudgetBody(budget.room, budget.agent, *caps, by=by))
        await self._channel.call(Ask("set_room_budget", "PUT", routes.ROOM_BUDGETS, body=body))

    async def room_ledger(self, room: str, *, after: int = 0, limit: int = 200) -> LogPage:
        query: dict[str, str | int] = {"after": after, "limit": limit}
        ask = Ask("room_ledger", "GET", routes.fill(routes.ROOM_LEDGER, room=room), query)
        return codec.load(LogPage, await self._channel.call(ask))

    def _new_key(self) -> str:
        return f"auto-{self._channel.random.token(16).hex()}"
