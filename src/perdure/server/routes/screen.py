"""What a user interface asks for beside the rest: a stream of all that changes, counts, a verdict, whom it acts for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from perdure.errors import InvalidInput
from perdure.server.feed import Feed, followed
from perdure.server.routes.parsed import Caller, ParsedRoute
from perdure.server.routes.parsed import reply as _reply
from perdure.wire import frames, routes
from perdure.wire.account import Proof, proof_of
from perdure.wire.bodies_screen import CountsView, LinkView, SessionView

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


@router.get(routes.PROOF, response_model=Proof, summary="Whether anything can have been done or paid twice")
async def proof(call: Caller, execution: str) -> Response:
    return _reply(await proof_of(call.api, execution))


@router.get(routes.SESSION, response_model=SessionView, summary="Who asks")
async def session(call: Caller) -> Response:
    return _reply(SessionView(call.principal.name, call.principal.company, call.known_by))


@router.post(
    routes.LINKS, status_code=201, response_model=LinkView, summary="Make a link that signs a browser in, once"
)
async def link(call: Caller) -> Response:
    return _reply(await call.new_link(), 201)
