"""Whose text a wake was shown, and what of it not all in the room may read.

Worked out of what was recorded, never asked of the model. Pure: the same room gives the same labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.core.rooms import EVERYBODY


@dataclass(frozen=True, slots=True)
class Labels:
    """What bears on the rights of whatever the wake does."""

    steered: tuple[str, ...] = ()
    """Others than the own company whose text was shown, sorted."""
    secrets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(owner, readers) of lines shown that not all may read, sorted."""


def labels_of(room: dict[str, Any], company: str) -> Labels:
    """Return the labels of a wake of this company's agent that was shown all of this."""
    steered: set[str] = set()
    for item in _items(room):
        owner = str(item["from"]).partition("/")[0]
        steered |= {owner, *item.get("steered_by", ())} - {company}
    lines = room["memory"]
    secrets = {(str(one["from"]).partition("/")[0], tuple(one["readers"])) for one in lines if _secret(one)}
    return Labels(tuple(sorted(steered)), tuple(sorted(secrets)))


def _items(room: dict[str, Any]) -> list[dict[str, Any]]:
    cause = [room["woken_by"]] if room["woken_by"] else []
    return [*cause, *room["messages"], *room["tasks"], *room["memory"]]


def _secret(line: dict[str, Any]) -> bool:
    return EVERYBODY not in line.get("readers", (EVERYBODY,))
