"""Seal and open texts with AES-256-GCM, of the package `cryptography`, which is loaded when the first is.

What a sealed text belongs to is authenticated with it: put elsewhere, it does not open.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure.core import codec
from perdure.core.ports import Random
from perdure.engine.secrets import SealedKey, SealedSecret
from perdure.errors import UserError
from perdure.server.server_keys import ServerKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12
FORMAT = "1."
"""What a sealed text begins with. Then: nonce and ciphertext with its tag, in base64."""


class Damaged(Exception):
    """A sealed text was altered, or is not where it was put."""


@dataclass(frozen=True, slots=True)
class Sealing:
    """Seals and opens. Get it with `load`."""

    cipher: Callable[[bytes], AESGCM]
    damaged: type[Exception]
    """What the package raises for it."""
    random: Random

    def seal(self, key: bytes, text: bytes, *belongs: str | int) -> str:
        """Return the text sealed under a key, for where it belongs only. The nonce is random."""
        nonce = self.random.token(NONCE_BYTES)
        sealed = self.cipher(key).encrypt(nonce, text, _aad(belongs))
        return FORMAT + base64.b64encode(nonce + sealed).decode()

    def open(self, key: bytes, sealed: str, *belongs: str | int) -> bytes:
        """Return what was sealed. Raises `Damaged`."""
        try:
            raw = base64.b64decode(sealed.removeprefix(FORMAT), validate=True)
            return self.cipher(key).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], _aad(belongs))
        except (self.damaged, binascii.Error, ValueError):
            raise Damaged from None

    def wrap(self, company: str, id: str, key: bytes, server_key: ServerKey) -> SealedKey:
        """Return a company's data key under a server key."""
        return SealedKey(id, server_key.id, self.seal(server_key.value, key, *_of_key(company, id, server_key.id)))

    def unwrap(self, company: str, key: SealedKey, server_key: ServerKey) -> bytes:
        """Return a company's data key. Raises `Damaged`."""
        return self.open(server_key.value, key.wrapped, *_of_key(company, key.id, key.server_key))

    def seal_secret(self, company: str, data_key: tuple[str, bytes], secret: SealedSecret, value: str) -> SealedSecret:
        """Return a secret with this value under a data key, which comes with its id."""
        id, key = data_key
        sealed = self.seal(key, value.encode(), *_of_secret(company, id, secret))
        return SealedSecret(secret.name, secret.version, sealed, secret.set_by, secret.set_ms, id)

    def open_secret(self, company: str, data_key: tuple[str, bytes], secret: SealedSecret) -> str:
        """Return the value of a secret. Raises `Damaged`."""
        id, key = data_key
        return self.open(key, secret.sealed, *_of_secret(company, id, secret)).decode()


async def load(random: Random) -> Sealing:
    """Load the package, away from the loop. Raises `UserError` (`missing_extra`) with the command to run."""
    try:
        aead, exceptions = await asyncio.to_thread(_import)
    except ImportError:
        raise UserError(
            "secrets need the package `cryptography` where the server runs. Run: pip install 'perdure[secrets]'.",
            code="missing_extra",
        ) from None
    return Sealing(aead.AESGCM, exceptions.InvalidTag, random)


def _import() -> tuple[Any, Any]:
    from cryptography import exceptions  # noqa: PLC0415 - an extra, and slow to import
    from cryptography.hazmat.primitives.ciphers import aead  # noqa: PLC0415 - as above

    return aead, exceptions


def _of_key(company: str, id: str, server_key: str) -> tuple[str, ...]:
    return "data key", server_key, company, id


def _of_secret(company: str, data_key: str, secret: SealedSecret) -> tuple[str | int, ...]:
    return "secret", data_key, company, secret.name, secret.version


def _aad(belongs: Sequence[str | int]) -> bytes:
    """Return one text for what something belongs to: no two lists have the same."""
    return codec.encode(list(belongs), "where it belongs").encode()
