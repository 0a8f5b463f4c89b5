"""The verbs about companies. A part of `wire.api.Api`. None of them returns a key."""

from __future__ import annotations

from typing import Protocol

from perdure.core.companies import CompanyStopped, CompanyView, KeyView


class CompaniesApi(Protocol):
    """Companies and their keys, for whoever runs the server; and the stop of one's own company.

    All raise `UserError` (`admin_only`).
    """

    async def companies(self) -> list[CompanyView]:
        """Return all companies with their keys, in order, without the keys themselves."""
        ...

    async def add_company_key(self, company: str, name: str, key: str) -> KeyView:
        """Let a key speak for somebody of a company, which is made if it is new. The caller made the key, of chance.

        The same again changes nothing. Raises `InvalidInput` (`bad_company`, `bad_key`), and `Conflict` (`key_taken`)
        if the key was another's, or was revoked.
        """
        ...

    async def revoke_company_key(self, company: str, key: str) -> KeyView:
        """Have a key, by its id, open nothing any more, nor the browsers' sessions of whose it was.

        It counts at once for sessions, and within five seconds for the key. Again changes nothing. Raises `NotFound`.
        """
        ...

    async def stop_company(self, company: str = "", *, reason: str = "", by: str = "") -> CompanyStopped:
        """Have a company, by default one's own, do nothing in any room: no act, no further request to a model.

        On return it holds, in rooms that it comes into later too. Wakes that meet it are paused.
        """
        ...

    async def start_company(self, company: str = "", *, by: str = "") -> CompanyStopped:
        """Lift that stop. Wakes that it had paused go on where they were; other stops still hold."""
        ...
