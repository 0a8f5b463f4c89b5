"""The verbs about a company's secrets. A part of `wire.api.Api`. None of them returns a value."""

from __future__ import annotations

from typing import Protocol

from perdure.core.secrets import Rotation, SecretView


class SecretsApi(Protocol):
    """The secrets of one company: keys of models, and what `${secret:NAME}` in headers of tools stands for.

    All raise `UserError` where the server cannot encrypt: `missing_extra`, `secrets_key_missing`, `secrets_key_wrong`,
    `secret_damaged`.
    """

    async def secrets(self) -> list[SecretView]:
        """Return by name what is known of them but their values. Needs no key."""
        ...

    async def set_secret(self, name: str, value: str, *, by: str = "") -> SecretView:
        """Keep a value under a name, in place of the one that was there.

        It counts from the next request of this server, and within two seconds at every other. Raises `InvalidInput`
        (`bad_secret`) for what no header can carry, `LimitExceeded` (`too_many_secrets`).
        """
        ...

    async def delete_secret(self, name: str) -> None:
        """Take one away, whoever can open it. Raises `NotFound` (`no_secret`)."""
        ...

    async def rotate_secrets(self, *, all_companies: bool = False) -> Rotation:
        """Seal all of them under a new data key, and that under the server's first key: all of them or none.

        `all_companies`: so for each, one after the other; only for whoever runs the server. Raises `UserError`
        (`admin_only`).
        """
        ...
