"""The routes about agents that are reached by A2A. Where they are reached is `server/a2a_door.py`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from perdure.core.a2a import PublishedView
from perdure.server.routes.parsed import Caller, ParsedRoute, reply
from perdure.wire import routes
from perdure.wire.bodies_a2a import PublishBody, PublishedList, PushList

router = APIRouter(route_class=ParsedRoute)


@router.get(routes.A2A_AGENTS, response_model=PublishedList, summary="Agents that are reached by A2A")
async def published_agents(call: Caller) -> Response:
    return reply(PublishedList(tuple(await call.api.published_agents())))


@router.put(routes.A2A_AGENTS, response_model=PublishedView, summary="Let an agent be reached by A2A")
async def publish_agent(call: Caller, body: PublishBody) -> Response:
    by = call.by(body.by)
    return reply(await call.api.publish_agent(body.spec, description=body.description, by=by))


@router.delete(routes.A2A_AGENT, status_code=204, summary="Let an agent be reached by A2A no more")
async def withdraw_agent(call: Caller, agent: str) -> Response:
    await call.api.withdraw_agent(agent)
    return Response(status_code=204)


@router.get(routes.A2A_PUSHES, response_model=PushList, summary="Who is told of what A2A tasks do, and how that goes")
async def pushes(call: Caller, execution: str | None = None) -> Response:
    return reply(PushList(tuple(await call.api.pushes(execution=execution))))
