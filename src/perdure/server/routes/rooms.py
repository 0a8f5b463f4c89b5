"""The control API of rooms. Whose rooms they are comes from the key alone; no GET changes anything."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from perdure.core import states
from perdure.core.chain import LogPage
from perdure.core.room_search import MOST_FOUND, SearchPage, kinds_of
from perdure.core.room_views import RightsView, RoomTaskView, RoomView, WentOn
from perdure.core.rooms import MAX_WAIT_SECONDS, Act, Join, Leave, RemoveAgent, Written
from perdure.server.call import Call
from perdure.server.routes.parsed import After, Caller, Limit, ParsedRoute, reply
from perdure.wire import routes
from perdure.wire.bodies import ByBody
from perdure.wire.bodies_rooms import (
    AgentBody,
    BudgetBody,
    BudgetList,
    InviteBody,
    MemoryList,
    MessageList,
    PostBody,
    RememberBody,
    RightsBody,
    RoomBody,
    RoomList,
    RoomTaskBody,
    RoomTaskList,
    StartBody,
    StopBody,
    StopList,
    TaskChangeBody,
    WakeList,
)

router = APIRouter(route_class=ParsedRoute)

Words = Annotated[str, Query(description="Words. Nothing in it is a command")]
Kinds = Annotated[str, Query(description="Of `message`, `memory` and `file` those that are wanted, with commas")]
Page = Annotated[int, Query(ge=1, le=MOST_FOUND)]
Behind = Annotated[str, Query(description="`cursor` of the page before")]
_PAGES = (
    "Up to `limit`, fewer where they are long: about 4 MB of text, and at least one. Ask again with the last one's "
    "`seq` as `after`; an empty list is the end."
)
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS, description="How long to wait for a seq above `after`")]


async def _write(call: Call, room: str, act: Act, by: str, status: int = 200) -> Response:
    done = await call.api.write_in_room(room, act, by=call.identity(by))
    return reply(done, status if done.created else 200)


@router.get(routes.ROOMS, response_model=RoomList, summary="The rooms that one is in or may join")
async def rooms(call: Caller) -> Response:
    return reply(RoomList(tuple(await call.api.rooms())))


@router.post(routes.ROOMS, status_code=201, response_model=Written, summary="Make a room")
async def create_room(call: Caller, body: RoomBody) -> Response:
    done = await call.api.create_room(body.name, key=body.key, by=call.identity(body.by))
    return reply(done, 201 if done.created else 200)


@router.get(routes.ROOM, response_model=RoomView, summary="One room and who is in it, or wait for news of it")
async def room(call: Caller, room: str, after: After = 0, wait_seconds: Wait = 0.0) -> Response:
    if not wait_seconds:
        return reply(await call.api.room(room))
    with call.streams.place(call.principal.company, "waits for rooms", call.limits.polls):
        work = call.api.room(room, after=after, wait_seconds=wait_seconds)
        return reply(await call.streams.run(work, call.receive))


@router.post(routes.ROOM_INVITE, response_model=Written, summary="Let a company join: the host's right")
async def invite(call: Caller, room: str, body: InviteBody) -> Response:
    return await _write(call, room, body.act, body.by)


@router.post(routes.ROOM_JOIN, response_model=Written, summary="Accept an invitation")
async def join_room(call: Caller, room: str, body: ByBody | None = None) -> Response:
    return await _write(call, room, Join(), (body or ByBody()).by)


@router.post(routes.ROOM_LEAVE, response_model=Written, summary="Leave a room with all one's agents")
async def leave_room(call: Caller, room: str, body: ByBody | None = None) -> Response:
    return await _write(call, room, Leave(), (body or ByBody()).by)


@router.put(routes.ROOM_AGENTS, response_model=Written, summary="Register an agent, or change the one of its name")
async def put_room_agent(call: Caller, room: str, body: AgentBody) -> Response:
    by = call.identity(body.by)
    return reply(await call.api.put_room_agent(room, body.spec, on_crash=body.on_crash, by=by))


@router.delete(routes.ROOM_AGENT, response_model=Written, summary="Take an agent out: it acts no more")
async def remove_room_agent(call: Caller, room: str, agent: str) -> Response:
    return await _write(call, room, RemoveAgent(agent), "")


@router.get(routes.ROOM_MESSAGES, response_model=MessageList, summary="Messages, the oldest first", description=_PAGES)
async def room_messages(call: Caller, room: str, after: After = 0, limit: Limit = 200, thread: str = "") -> Response:
    found = await call.api.room_messages(room, after=after, limit=limit, thread=thread)
    return reply(MessageList(tuple(found)))


@router.post(routes.ROOM_MESSAGES, status_code=201, response_model=Written, summary="Say something in a room")
async def post(call: Caller, room: str, body: PostBody) -> Response:
    return await _write(call, room, body.act, body.by, 201)


@router.get(
    routes.ROOM_TASKS, response_model=RoomTaskList, summary="Tasks of a room, the oldest first", description=_PAGES
)
async def room_tasks(
    call: Caller,
    room: str,
    after: After = 0,
    limit: Limit = 200,
    state: states.RoomTask | None = None,
    to: str = "",
) -> Response:
    found = await call.api.room_tasks(room, after=after, limit=limit, state=state or "", to=to)
    return reply(RoomTaskList(tuple(found)))


@router.post(routes.ROOM_TASKS, status_code=201, response_model=Written, summary="Ask for something to be done")
async def open_task(call: Caller, room: str, body: RoomTaskBody) -> Response:
    return await _write(call, room, body.act, body.by, 201)


@router.get(routes.ROOM_TASK, response_model=RoomTaskView, summary="One task of a room")
async def room_task(call: Caller, room: str, task: str) -> Response:
    return reply(await call.api.room_task(room, task))


@router.post(routes.ROOM_TASK, response_model=Written, summary="Claim, release, complete, decline or cancel a task")
async def change_task(call: Caller, room: str, task: str, body: TaskChangeBody) -> Response:
    return await _write(call, room, body.act(task), body.by)


@router.get(
    routes.ROOM_MEMORY,
    response_model=MemoryList,
    summary="The memory that one may read, the oldest first",
    description=_PAGES,
)
async def room_memory(call: Caller, room: str, after: After = 0, limit: Limit = 200) -> Response:
    return reply(MemoryList(tuple(await call.api.room_memory(room, after=after, limit=limit))))


@router.post(routes.ROOM_MEMORY, status_code=201, response_model=Written, summary="Keep a line in a room's memory")
async def remember(call: Caller, room: str, body: RememberBody) -> Response:
    return await _write(call, room, body.act, body.by, 201)


@router.get(routes.ROOM_SEARCH, response_model=SearchPage, summary="What has words of a query, the best first")
async def search_room(
    call: Caller, room: str, query: Words, kinds: Kinds = "", limit: Page = 20, cursor: Behind = ""
) -> Response:
    return reply(await call.api.search_room(room, query, kinds=kinds_of(kinds), limit=limit, cursor=cursor))


@router.get(routes.ROOM_WAKES, response_model=WakeList, summary="Who was woken by what, the newest first")
async def room_wakes(call: Caller, room: str, limit: Limit = 200) -> Response:
    return reply(WakeList(tuple(await call.api.room_wakes(room, limit=limit))))


@router.post(routes.ROOM_STOP, response_model=Written, summary="Have a member, or the room, do nothing for now")
async def stop_room(call: Caller, room: str, body: StopBody | None = None) -> Response:
    said = body or StopBody()
    return await _write(call, room, said.act, said.by)


@router.post(routes.ROOM_START, response_model=WentOn, summary="Lift a stop: what it had paused goes on")
async def start_room(call: Caller, room: str, body: StartBody | None = None) -> Response:
    said = body or StartBody()
    return reply(await call.api.start_room(room, said.member, by=call.identity(said.by)))


@router.get(routes.ROOM_STOPS, response_model=StopList, summary="Who does nothing for now")
async def room_stops(call: Caller, room: str) -> Response:
    return reply(StopList(tuple(await call.api.room_stops(room))))


@router.get(routes.ROOM_BUDGETS, response_model=BudgetList, summary="One's company's caps, and how they stand today")
async def room_budgets(call: Caller) -> Response:
    return reply(BudgetList(tuple(await call.api.room_budgets())))


@router.put(routes.ROOM_BUDGETS, response_model=BudgetList, summary="Set a cap on a day, or take it away")
async def set_room_budget(call: Caller, body: BudgetBody) -> Response:
    remove = body.usd is None and body.tokens is None
    await call.api.set_room_budget(body.budget, remove=remove, by=call.identity(body.by))
    return reply(BudgetList(tuple(await call.api.room_budgets())))


@router.get(routes.ROOM_RIGHTS, response_model=RightsView, summary="What one's company said may be done")
async def room_rights(call: Caller, room: str) -> Response:
    return reply(await call.api.room_rights(room))


@router.put(routes.ROOM_RIGHTS, response_model=Written, summary="Say what may be done, in place of what was said")
async def set_rights(call: Caller, room: str, body: RightsBody) -> Response:
    return await _write(call, room, body.act, body.by)


@router.get(routes.ROOM_LEDGER, response_model=LogPage, summary="A room's ledger as it is stored, with its hashes")
async def room_ledger(call: Caller, room: str, after: After = 0, limit: Limit = 200) -> Response:
    return reply(await call.api.room_ledger(room, after=after, limit=limit))
