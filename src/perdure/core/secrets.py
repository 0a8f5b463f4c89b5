"""What is said of a company's secrets, and what one may be. Their values are in none of these."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure.errors import InvalidInput

MOST_SECRETS = 500
"""Of one company: a rotation seals all of them anew in one transaction."""
LEAST_VALUE = 8
"""Characters: what is shorter cannot be told from other text, and could not be taken out of what comes back."""
MOST_VALUE = 16_384
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True)
class SecretView:
    """A secret, without its value."""

    name: str
    set_by: str
    set_ms: int
    version: int
    """Grows each time it is set."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """What a rotation did."""

    companies: int
    """Whose data key is another one now."""
    secrets: int
    """That are sealed under it."""
    server_key: str
    """The id of the server key that the data keys are under now."""


def check_secret_name(name: object) -> None:
    """Raise `InvalidInput` (`bad_secret`) for what no reference can name."""
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise _bad(
            "a secret's name is 1 to 128 letters, digits and `_`, and begins with no digit, as OPENAI_API_KEY does; "
            f"found {str(name)[:80]!r}"
        )


def check_secret(name: str, value: str) -> None:
    """Raise `InvalidInput` (`bad_secret`) for a name or value that cannot be, with nothing of the value in it."""
    check_secret_name(name)
    if not LEAST_VALUE <= len(value) <= MOST_VALUE:
        raise _bad(f"secret {name}: a value has {LEAST_VALUE} to {MOST_VALUE:,} characters; found {len(value):,}")
    if not value.isascii() or not value.isprintable():
        raise _bad(f"secret {name}: its value holds what no header can carry: it should be printable ASCII on one line")
    if value != value.strip():
        raise _bad(f"secret {name}: its value begins or ends with a space, which no header keeps; leave it out")


def no_secret(name: str) -> str:
    """Return the sentence for a name that there is no secret of."""
    return f"there is no secret {name[:128]}. `perdure secrets list` shows yours; `perdure secrets set NAME` makes one."


def _bad(why: str) -> InvalidInput:
    return InvalidInput(f"{why}.", code="bad_secret")
