"""The verbs about companies over HTTP."""

from __future__ import annotations

from perdure.client.channel import Ask, OverHttp
from perdure.core.companies import CompanyStopped, CompanyView, KeyView, check_company
from perdure.core.ids import check_named
from perdure.wire import bodies_companies as shapes
from perdure.wire import codec, routes


class HttpCompanies(OverHttp):
    """`CompaniesApi` over HTTP."""

    async def companies(self) -> list[CompanyView]:
        found = await self._channel.call(Ask("companies", "GET", routes.COMPANIES))
        return list(codec.load(shapes.CompanyList, found).items)

    async def add_company_key(self, company: str, name: str, key: str) -> KeyView:
        path = routes.fill(routes.COMPANY_KEYS, company=company)
        check_company(company)  # a name with a slash would be another route
        ask = Ask("add_company_key", "POST", path, body=codec.dump_given(shapes.KeyBody(name, key)))
        return codec.load(KeyView, await self._channel.call(ask))

    async def revoke_company_key(self, company: str, key: str) -> KeyView:
        path = routes.fill(routes.COMPANY_KEY, company=company, key=key)
        return codec.load(KeyView, await self._channel.call(Ask("revoke_company_key", "DELETE", path)))

    async def stop_company(self, company: str = "", *, reason: str = "", by: str = "") -> CompanyStopped:
        check_named(company=company)
        body = codec.dump_given(shapes.StopCompanyBody(company, reason, by))
        return codec.load(
            CompanyStopped, await self._channel.call(Ask("stop_company", "POST", routes.COMPANY_STOP, body=body))
        )

    async def start_company(self, company: str = "", *, by: str = "") -> CompanyStopped:
        check_named(company=company)
        body = codec.dump_given(shapes.StartCompanyBody(company, by))
        return codec.load(
            CompanyStopped, await self._channel.call(Ask("start_company", "POST", routes.COMPANY_START, body=body))
        )
