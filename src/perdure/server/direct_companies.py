"""The verbs about companies in-process."""

from __future__ import annotations

from perdure.core.companies import CompanyStopped, CompanyView, KeyView, check_company, check_key
from perdure.core.ids import check_named
from perdure.core.rooms import Actor, Stop, check_act, check_name
from perdure.engine.companies import (
    RevokeKey,
    StopCompany,
    Stopped,
    companies_view,
    key_view,
    revoke_key,
    stop_company,
)
from perdure.engine.keys import DEFAULT_COMPANY, AddKey, add_key
from perdure.errors import PerdureError, UserError
from perdure.server.bridge import Bridge


class DirectCompanies:
    """`CompaniesApi` of one company. Whoever has the default company in-process has the whole store."""

    def __init__(self, bridge: Bridge, company: str) -> None:
        self._bridge, self._company = bridge, company

    async def companies(self) -> list[CompanyView]:
        check_runs_it(self._company == DEFAULT_COMPANY)
        return await self._bridge.read(companies_view)

    async def add_company_key(self, company: str, name: str, key: str) -> KeyView:
        check_named(company=company, name=name, key=key)
        check_runs_it(self._company == DEFAULT_COMPANY)
        check_company(company)
        check_key(name, key)
        await self._bridge.run(add_key, AddKey(company, name, key))
        found = await self._bridge.read(lambda reads: key_view(reads, company, key))
        if isinstance(found, PerdureError):
            raise found
        return found

    async def revoke_company_key(self, company: str, key: str) -> KeyView:
        check_named(company=company, key=key)
        check_runs_it(self._company == DEFAULT_COMPANY)
        return await self._bridge.ask(revoke_key, RevokeKey(company, key))

    async def stop_company(self, company: str = "", *, reason: str = "", by: str = "") -> CompanyStopped:
        check_act(Stop(reason=reason))
        return await self._until_told(self._stop_of(company, reason, by, lift=False))

    async def start_company(self, company: str = "", *, by: str = "") -> CompanyStopped:
        return await self._until_told(self._stop_of(company, "", by, lift=True))

    def _stop_of(self, company: str, reason: str, by: str, *, lift: bool) -> StopCompany:
        check_named(company=company)
        whom = company or self._company
        check_runs_it(self._company in (whom, DEFAULT_COMPANY))
        check_company(whom)
        if by:
            check_name(by)
        return StopCompany(whom, Actor(self._company, by or "member"), reason, lift)

    async def _until_told(self, row: StopCompany) -> CompanyStopped:
        rooms, wakes, changed = 0, 0, False
        while True:
            done: Stopped = await self._bridge.ask(stop_company, row)
            told = done.told
            rooms, wakes, changed = rooms + told.rooms, wakes + told.wakes, changed or told.changed
            if not done.left:
                return CompanyStopped(told.company, changed, rooms, wakes)


def check_runs_it(so: bool) -> None:
    """Refuse what only whoever runs the server may do. The same words for every company, whether it exists or not."""
    if not so:
        raise UserError(
            "Only the server's admin key may do this: it is about other companies than your own, or about their keys.",
            code="admin_only",
        )
