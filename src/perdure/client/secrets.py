"""Secrets as programs keep them: `runtime.secrets`. Every verb has an async twin; none gives a value back."""

from __future__ import annotations

from perdure.client.handle import Connection
from perdure.core.secrets import Rotation, SecretView


class Secrets:
    """The secrets of one runtime's server: of the company whose key the runtime has."""

    def __init__(self, runtime: Connection) -> None:
        self._runtime = runtime

    async def set_async(self, name: str, value: str) -> SecretView:
        """Keep a value under a name, in place of the one that was there. It counts from the next request, and at other
        servers of the store within two seconds.

        A secret with the name of a provider's key, OPENAI_API_KEY for one, is the key that the company's agents ask
        their models with. Raises `InvalidInput` (`bad_secret`), and `UserError` where the server has no key of its own.
        """
        return await self._runtime.join(self._runtime.api.set_secret(name, value))

    def set(self, name: str, value: str) -> SecretView:
        return self._runtime.wait(self.set_async(name, value))

    async def delete_async(self, name: str) -> None:
        """Take one away. Raises `NotFound` (`no_secret`)."""
        await self._runtime.join(self._runtime.api.delete_secret(name))

    def delete(self, name: str) -> None:
        self._runtime.wait(self.delete_async(name))

    async def rotate_async(self, *, all_companies: bool = False) -> Rotation:
        """Seal all of them under a new data key, and that under the server's first key: all of them or none."""
        return await self._runtime.join(self._runtime.api.rotate_secrets(all_companies=all_companies))

    def rotate(self, *, all_companies: bool = False) -> Rotation:
        return self._runtime.wait(self.rotate_async(all_companies=all_companies))

    async def list_async(self) -> list[SecretView]:
        """Return by name what is known of them but their values."""
        return await self._runtime.join(self._runtime.api.secrets())

    def list(self) -> list[SecretView]:
        return self._runtime.wait(self.list_async())
