"""Companies and their API keys, as they are told of. A key itself is in none of these: its hash alone is stored."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

from perdure.core.ports import Random
from perdure.errors import InvalidInput

PREFIX = "pdk_"
"""What every key begins with."""
SPEAKS_FOR_ALL = frozenset({"admin", "anonymous"})
"""Names of keys that may act in anybody's name: whoever has one owns the server."""

_COMPANY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_KEY = re.compile(r"pdk_[A-Za-z0-9_-]{43}")
_MOST_NAME = 200


@dataclass(frozen=True, slots=True)
class KeyView:
    """A key, without the key."""

    id: str
    """The beginning of its hash."""
    name: str
    """Whose it is: who it is that writes, decides and fills a role with it."""
    made_ms: int
    revoked_ms: int | None
    begins: str = ""
    """Its first characters, by which its owner knows it."""


@dataclass(frozen=True, slots=True)
class CompanyView:
    """A company with all keys that it ever had."""

    company: str
    made_ms: int
    keys: tuple[KeyView, ...]


@dataclass(frozen=True, slots=True)
class CompanyStopped:
    """What came of stopping a company in all rooms, or of letting it go on."""

    company: str
    changed: bool
    """False: it was so before."""
    rooms: int
    """Whose ledgers say so."""
    wakes: int
    """That had been paused by it, and go on."""


def new_key(random: Random) -> str:
    """Return a key of 256 bits that nobody has."""
    return PREFIX + base64.urlsafe_b64encode(random.token(32)).decode().rstrip("=")


def check_company(name: str) -> None:
    """Raise `InvalidInput` (`bad_company`) for what can be no company's name."""
    if not _COMPANY.fullmatch(name):
        raise InvalidInput(
            "a company's name is 1 to 128 letters, digits, `_`, `.` and `-`, and begins with a letter or a digit; "
            f"found {name[:80]!r}.",
            code="bad_company",
        )


def check_key(name: str, key: str) -> None:
    """Raise `InvalidInput` (`bad_key`) for a name or a key that cannot be, with nothing of the key in it."""
    if not 0 < len(name) <= _MOST_NAME or not name.isprintable() or name != name.strip():
        raise _bad(
            f"a key's name is 1 to {_MOST_NAME} printable characters without space around them; found {name[:80]!r}"
        )
    if name in SPEAKS_FOR_ALL:
        raise _bad(
            f"no key can be made with the name {name!r}: such a key may act in anybody's name. Name the person or the "
            "program that is to have it"
        )
    if not _KEY.fullmatch(key):
        raise _bad("a key is `pdk_` and 256 bits of chance in 43 characters, base64 for URLs without padding")


def _bad(why: str) -> InvalidInput:
    return InvalidInput(f"{why}.", code="bad_key")
