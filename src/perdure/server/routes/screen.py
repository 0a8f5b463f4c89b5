"""What a user interface asks for beside the rest: a stream of all that changes, counts, a verdict, whom it acts for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from perdure.core import states
from perdure.core.views import ExecutionFilter, FoundPage
from perdure.engine.agents import AgentPage, VersionPage
from perdure.engine.recent import Recent
from perdure.errors import InvalidInput
from perdure.server.feed import Feed, followed
from perdure.server.routes.parsed import Caller, Moment, ParsedRoute
from perdure.server.routes.parsed import reply as _reply
from perdure.wire import frames, routes
from perdure.wire.account import Proof, proof_of
from perdure.wire.bodies_screen import CountsView, HeldList, KeyNames, LinkView, SessionView, TickList

router = APIRouter(route_class=ParsedRoute)

Follow = Annotated[
    list[str] | None,
    Query(description="An execution whose log is to come too, and behind which event: exe_1:14. May be repeated."),
]


@router.get(
    routes.FEED,
    response_class=Response,
    summary="A stream of all that changes: executions, open approvals, and the logs that are followed",
    responses={200: {"content": {frames.MEDIA_TYPE: {}}}},
)
async def feed(call: Caller, follow: Follow = None) -> Response:
    if frames.MEDIA_TYPE.encode() not in call.head.get(b"accept", b""):
        raise InvalidInput(
            f"This is a stream that never ends: ask for it with Accept: {frames.MEDIA_TYPE}.", fields=["Accept"]
        )
    return Feed(call, call.changes, followed(follow or [], call.head.get(b"last-event-id")))


@router.get(routes.COUNTS, response_model=CountsView, summary="How many executions are in each state")
async def counts(call: Caller, agent: str | None = None) -> Response:
    return _reply(await call.changes.counts(agent))


@router.get(
    routes.SEARCH,
    response_model=FoundPage,
    summary="Executions with a text in their id, agent, tags or input, newest first; a page looks at so many at most",
)
async def search(
    call: Caller,
    text: Annotated[str, Query(description="Whatever its case; of what begins an id, those whose id begins so")],
    state: states.Execution | None = None,
    agent: str | None = None,
    since_ms: Moment = None,
    until_ms: Moment = None,
    tag: str | None = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    wanted = ExecutionFilter(state, agent, since_ms, until_ms, tag)
    return _reply(await call.api.search_executions(text, wanted, cursor=cursor, limit=limit))


@router.get(
    routes.RECENT,
    response_model=Recent,
    summary="How many executions were begun in each part of the last hours; the newest of them are counted",
)
async def recent(call: Caller, hours: Annotated[int, Query(ge=1, le=168)] = 24) -> Response:
    return _reply(await call.changes.recent(hours))


@router.get(routes.AGENTS, response_model=AgentPage, summary="Agents and durable functions, by name")
async def agents(call: Caller, cursor: str | None = None, limit: Annotated[int, Query(ge=1, le=200)] = 100) -> Response:
    return _reply(await call.changes.agents(cursor, limit))


@router.get(routes.VERSIONS, response_model=VersionPage, summary="What an agent has been, the newest first")
async def versions(
    call: Caller, agent: str, cursor: str | None = None, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> Response:
    return _reply(await call.changes.versions(agent, cursor, limit))


@router.get(routes.SCHEDULE_TICKS, response_model=TickList, summary="When a schedule begins something next")
async def ticks(call: Caller, schedule: str, limit: Annotated[int, Query(ge=1, le=50)] = 5) -> Response:
    return _reply(call.changes.ticks(await call.api.schedule(schedule), limit))


@router.get(routes.WORKERS_HELD, response_model=HeldList, summary="How many tasks each worker has under way")
async def held(call: Caller) -> Response:
    return _reply(await call.changes.held())


@router.get(routes.PROOF, response_model=Proof, summary="Whether anything can have been done or paid twice")
async def proof(call: Caller, execution: str) -> Response:
    return _reply(await proof_of(call.api, execution))


@router.get(routes.KEYS, response_model=KeyNames, summary="The company's keys, without what they are")
async def keys(call: Caller) -> Response:
    return _reply(await call.changes.keys())


@router.get(routes.SESSION, response_model=SessionView, summary="Who asks")
async def session(call: Caller) -> Response:
    return _reply(SessionView(call.principal.name, call.principal.company, call.known_by))


@router.post(
    routes.LINKS, status_code=201, response_model=LinkView, summary="Make a link that signs a browser in, once"
)
async def link(call: Caller) -> Response:
    return _reply(await call.new_link(), 201)
