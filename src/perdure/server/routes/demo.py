"""The crash demo of the web UI: for whoever runs the server, where that offers one. No code of a user's runs in it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from perdure.core.companies import SPEAKS_FOR_ALL
from perdure.engine.keys import DEFAULT_COMPANY
from perdure.errors import Conflict
from perdure.server.call import Call
from perdure.server.crash_demo import CrashDemo
from perdure.server.direct_companies import check_runs_it
from perdure.server.routes.parsed import Caller, ParsedRoute, reply
from perdure.wire import routes
from perdure.wire.bodies_demo import DemoView

router = APIRouter(route_class=ParsedRoute)


def _runs_it(call: Call) -> bool:
    return call.principal.company == DEFAULT_COMPANY and call.principal.name in SPEAKS_FOR_ALL


def _demo(call: Call) -> CrashDemo:
    check_runs_it(_runs_it(call))
    if call.demo is None:
        raise Conflict(
            "This server plays no crash demo: it was started with --no-demo, shares its store, or is reached from "
            "elsewhere. `perdure demo` plays one in a terminal.",
            code="no_demo",
        )
    return call.demo


@router.get(routes.DEMO, response_model=DemoView, summary="How the crash demo stands, and whether there is one")
async def demo(call: Caller) -> Response:
    offered = call.demo is not None and _runs_it(call)
    return reply(call.demo.view() if call.demo and offered else DemoView(available=False))


@router.post(
    routes.DEMO,
    status_code=201,
    response_model=DemoView,
    summary="Begin the crash demo: a run with a scripted model, and a worker process for its tools",
)
async def begin_demo(call: Caller) -> Response:
    return reply(await _demo(call).begin(call.by("")), 201)


@router.post(routes.DEMO_KILL, response_model=DemoView, summary="Kill the demo's worker, by SIGKILL")
async def kill_demo_worker(call: Caller) -> Response:
    return reply(await _demo(call).kill())
