"""Hooks of rooms: addresses at which programs outside say something to a member, without a key. Pure."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

from perdure.core.ports import Random
from perdure.core.rooms import MAX_TEXT
from perdure.errors import InvalidInput

HOOK = "pdh_"
"""What the secret of a hook begins with."""
PATH = "/v1/hooks/"
"""Where it is used: this path of the server, and the secret."""
AUTHOR = "hook:"
"""What the name begins with of whoever speaks through one, and the label of what is said."""

_SECRET = re.compile(r"pdh_[A-Za-z0-9_-]{43}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class HookView:
    """A hook, without its secret."""

    name: str
    room: str
    to: str
    """The member that what comes is for: `company/agent`, or a company."""
    made_ms: int


@dataclass(frozen=True, slots=True)
class Hook:
    """What a secret stands for."""

    company: str
    name: str
    room: str
    to: str


def new_secret(random: Random) -> str:
    """Return a secret of 256 bits."""
    return HOOK + base64.urlsafe_b64encode(random.token(32)).decode().rstrip("=")


def is_secret(text: str) -> bool:
    """Say whether a text has the form of one. Tells nothing about whether there is such a hook."""
    return _SECRET.fullmatch(text) is not None


def check_hook(name: str, secret: str) -> None:
    """Raise `InvalidInput` (`bad_hook`) for what cannot be one, with nothing of the secret in it."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"a hook's name is 1 to 64 letters, digits, `_`, `.` and `-`; found {name[:80]!r}.", code="bad_hook"
        )
    if not is_secret(secret):
        raise InvalidInput(
            "a hook's secret is `pdh_` and 256 bits of chance in 43 characters, base64 for URLs without padding.",
            code="bad_hook",
        )


def text_of(raw: str) -> str:
    """Return what came as a message may hold it: without what no store takes, and cut where it is too long."""
    text = raw.replace("\0", "").encode("utf-8", "replace").decode().strip() or "(nothing)"
    if len(text) <= MAX_TEXT:
        return text
    note = f"\n[cut: it had {len(text):,} characters]"
    return text[: MAX_TEXT - len(note)] + note
