"""Values that this release wrote, read back: what cannot be read was damaged, or changed by somebody else."""

from __future__ import annotations

from typing import Any, cast

from perdure.core import codec
from perdure.core.approval import ApprovalRules, approval_from_text
from perdure.errors import Conflict, InvalidInput
from perdure.store.protocol import Row


def value_of(text: str, what: str) -> Any:
    """Return the value of stored JSON text. Raises Conflict (`row_damaged`) that names `what` cannot be read."""
    try:
        return codec.decode(text)
    except (ValueError, TypeError, AttributeError) as error:  # the last two: it is no text at all
        raise damaged(what, error) from None


def facts_of(text: str, what: str) -> dict[str, Any]:
    """Return what a stored event says. Raises as `value_of`, also for a fact that is looked for and not there."""
    found = value_of(text, what)
    if not isinstance(found, dict):
        raise damaged(what, TypeError(f"an object was stored, found {found!r:.40}"))
    return _Facts(what, cast("dict[str, Any]", found))


def rules_of_approval(row: Row) -> ApprovalRules:
    """Return the rules of a stored approval. Raises Conflict (`row_damaged`) for what no release wrote."""
    try:
        return approval_from_text(row["rules"])
    except (ValueError, TypeError, AttributeError, InvalidInput) as error:
        raise damaged(f"the rules of approval {row['id']}", error) from None


class _Facts(dict[str, Any]):
    def __init__(self, what: str, facts: dict[str, Any]) -> None:
        super().__init__(facts)
        self._what = what

    def __missing__(self, name: str) -> Any:
        raise damaged(self._what, KeyError(name))


def damaged(what: str, error: Exception) -> Conflict:
    """Return the error for something stored that is not as this release, or any, would have written it."""
    return Conflict(
        f"{what} cannot be read: {error}. It is not what was written: the store was damaged, or altered by another "
        "program. `perdure effects verify` says which logs are whole; restore the store from a backup.",
        code="row_damaged",
    )
