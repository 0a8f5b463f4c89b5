"""The control API of companies: their keys, for the admin key alone, and the stop of a company in all rooms."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from perdure.core.companies import SPEAKS_FOR_ALL, CompanyStopped, KeyView
from perdure.server.call import Call
from perdure.server.direct_companies import check_runs_it
from perdure.server.routes.parsed import Caller, ParsedRoute, reply
from perdure.wire import routes
from perdure.wire.bodies_companies import CompanyList, KeyBody, StartCompanyBody, StopCompanyBody

router = APIRouter(route_class=ParsedRoute)


def _check(call: Call, company: str | None = None) -> None:
    """Refuse other keys than the admin's, but where a company is stopped that is the caller's own."""
    check_runs_it(call.principal.name in SPEAKS_FOR_ALL or company in ("", call.principal.company))


@router.get(routes.COMPANIES, response_model=CompanyList, summary="All companies and their keys, for the admin key")
async def companies(call: Caller) -> Response:
    _check(call)
    return reply(CompanyList(tuple(await call.api.companies())))


@router.post(routes.COMPANY_KEYS, status_code=201, response_model=KeyView, summary="Let a key speak for a company")
async def add_company_key(call: Caller, company: str, body: KeyBody) -> Response:
    _check(call)
    return reply(await call.api.add_company_key(company, body.name, body.key), 201)


@router.delete(routes.COMPANY_KEY, response_model=KeyView, summary="Have a key open nothing any more")
async def revoke_company_key(call: Caller, company: str, key: str) -> Response:
    _check(call)
    return reply(await call.api.revoke_company_key(company, key))


@router.post(routes.COMPANY_STOP, response_model=CompanyStopped, summary="Have a company do nothing in any room")
async def stop_company(call: Caller, body: StopCompanyBody | None = None) -> Response:
    said = body or StopCompanyBody()
    _check(call, said.company)
    return reply(await call.api.stop_company(said.company, reason=said.reason, by=call.identity(said.by)))


@router.post(routes.COMPANY_START, response_model=CompanyStopped, summary="Let a company go on in all rooms")
async def start_company(call: Caller, body: StartCompanyBody | None = None) -> Response:
    said = body or StartCompanyBody()
    _check(call, said.company)
    return reply(await call.api.start_company(said.company, by=call.identity(said.by)))
