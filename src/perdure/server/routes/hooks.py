"""The control API of hooks of rooms. Whose they are comes from the key alone; no GET changes anything."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from perdure.core.hooks import HookView
from perdure.server.routes.parsed import Caller, ParsedRoute, reply
from perdure.wire import routes
from perdure.wire.bodies_hooks import HookBody, HookList

router = APIRouter(route_class=ParsedRoute)


@router.post(routes.ROOM_HOOKS, status_code=201, response_model=HookView, summary="Have what comes at an address said")
async def add_room_hook(call: Caller, room: str, body: HookBody) -> Response:
    return reply(await call.api.add_room_hook(room, body.name, body.to, body.secret), 201)


@router.get(routes.HOOKS, response_model=HookList, summary="The company's hooks, without their secrets")
async def room_hooks(call: Caller) -> Response:
    return reply(HookList(tuple(await call.api.room_hooks())))


@router.delete(routes.HOOK, status_code=204, summary="Take a hook away")
async def remove_room_hook(call: Caller, hook: str) -> Response:
    await call.api.remove_room_hook(hook)
    return Response(status_code=204)
