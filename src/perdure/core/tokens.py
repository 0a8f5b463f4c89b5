"""The right to end a wait, as an opaque text: how it is derived, shown as an address, and known again.

Pure. A secret is derived from the store's own key and the wait's id, so that code run again from its log has the same
secret and address without either being in a log, a row or an export; the store keeps a hash to find the wait by.
"""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass

PREFIX = "pdt_"
"""Every secret begins with it: leak scanners and people recognise one."""
LENGTH = len(PREFIX) + 43
PATH = "/v1/tokens/"
"""Where a secret is used: this path of the server, and the secret."""

TOKEN_ENDS = frozenset({"complete", "fail", "expire"})
"""Decisions that end the wait for a token, not one for an approval."""


def company_key(store_key: bytes, company: str) -> str:
    """Return the key that a company's secrets are derived with. Only for holders of that company's executions."""
    return hmac.digest(store_key, b"company\0" + company.encode(), "sha256").hex()


def is_secret(text: str) -> bool:
    """Say whether a text has the form of a secret. Tells nothing about whether there is such a one."""
    return len(text) == LENGTH and text.startswith(PREFIX) and text.isascii()


def token_of(given: str) -> str:
    """Return the secret or id that somebody gave, who may have pasted the whole address."""
    given = given.strip()
    return given.partition(PATH)[2].partition("/")[0] if PATH in given else given


@dataclass(frozen=True, slots=True)
class Issuer:
    """Makes the secrets of one company's waits, for whoever holds its executions."""

    key: str
    """`company_key` of the store."""
    base: str = ""
    """Where the public reaches the server, without a slash at the end. Empty if nobody said so."""

    def secret(self, id: str) -> str:
        """Return the secret of the wait with this id: the same each time."""
        made = hmac.digest(bytes.fromhex(self.key), b"token\0" + id.encode(), "sha256")
        return PREFIX + base64.urlsafe_b64encode(made).decode().rstrip("=")

    def url(self, id: str, base: str) -> str:
        """Return the address to which a result is posted. `base` is the recorded one; without it there is none: ''."""
        return f"{base}{PATH}{self.secret(id)}" if base else ""
