"""The verbs about secrets in-process."""

from __future__ import annotations

from perdure.core.ids import check_named
from perdure.core.secrets import Rotation, SecretView, check_secret
from perdure.engine.keys import DEFAULT_COMPANY
from perdure.errors import UserError
from perdure.server.secrets import Secrets


class DirectSecrets:
    """`SecretsApi` of one company."""

    def __init__(self, secrets: Secrets, company: str) -> None:
        self._secrets, self._company = secrets, company

    async def secrets(self) -> list[SecretView]:
        return await self._secrets.views(self._company)

    async def set_secret(self, name: str, value: str, *, by: str = "") -> SecretView:
        check_secret(name, value)
        return await self._secrets.set(self._company, name, value, by)

    async def delete_secret(self, name: str) -> None:
        check_named(secret=name)
        await self._secrets.delete(self._company, name)

    async def rotate_secrets(self, *, all_companies: bool = False) -> Rotation:
        if not all_companies:
            return await self._secrets.rotate(self._company)
        if self._company != DEFAULT_COMPANY:
            raise not_yours()
        return await self._secrets.rotate_all()


def not_yours() -> UserError:
    """Return the refusal to touch what is other companies'."""
    return UserError(
        "Only the admin key of the server may rotate the secrets of all companies. Leave all_companies out to rotate "
        "those of your own.",
        code="admin_only",
    )
