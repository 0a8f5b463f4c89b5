"""Values that this release wrote, read back: what cannot be read was damaged, or changed by somebody else."""

from __future__ import annotations

from typing import Any

from perdure.core import codec
from perdure.errors import Conflict


def value_of(text: str, what: str) -> Any:
    """Return the value of stored JSON text. Raises Conflict (`row_damaged`) that names `what` cannot be read."""
    try:
        return codec.decode(text)
    except (ValueError, TypeError) as error:
        raise damaged(what, error) from None


def damaged(what: str, error: Exception) -> Conflict:
    """Return the error for something stored that is not as this release, or any, would have written it."""
    return Conflict(
        f"{what} cannot be read: {error}. It is not what was written: the store was damaged, or altered by another "
        "program. `perdure effects verify` says which logs are whole; restore the store from a backup.",
        code="row_damaged",
    )
