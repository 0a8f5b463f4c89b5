"""Whose text a wake was shown, and what of it not all in the room may read.

Worked out of what was recorded, never asked of the model. Pure: the same room gives the same labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from perdure.core.rooms import EVERYBODY

FILES = "passages"
"""Where the room as it is read has text of files: data, whoever put them there."""

Room = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Labels:
    """What bears on the rights of whatever the wake does."""

    steered: tuple[str, ...] = ()
    """Others than the own company whose text was shown, `file:` and the id for files, `tool:` and the name for tools,
    sorted."""
    secrets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(owner, readers) of lines shown that not all may read, sorted."""


def labels_of(room: Room, company: str, heard: Iterable[str] = ()) -> Labels:
    """Return the labels of a wake of this company's agent that was shown all of this, and what `heard` tools gave."""
    steered: set[str] = set()
    for item in items_of(room):
        steered |= sources_of(item, company)
    for one in room.get(FILES, ()):
        steered |= {f"file:{one['id']}", *sources_of(one, company)}
    steered |= {f"tool:{one}" for one in heard}
    secrets = {(owner_of(one), tuple(one["readers"])) for one in withheld(room)}
    return Labels(tuple(sorted(steered)), tuple(sorted(secrets)))


def sources_of(item: Room, company: str) -> set[str]:
    """Return whose text an item is, or was written under: content keeps its label, whoever passes it on."""
    return {owner_of(item), *item.get("steered_by", ())} - {company}


def items_of(room: Room) -> Iterator[Room]:
    """Yield everything in a room that somebody wrote."""
    if room["woken_by"]:
        yield room["woken_by"]
    for name in ("messages", "tasks", "memory"):
        yield from room[name]


def owner_of(item: Room) -> str:
    """Return the company that an item is of."""
    return str(item["from"]).partition("/")[0]


def withheld(room: Room) -> list[Room]:
    """Return the lines of memory that not all in the room may read: shown only on the agent's wish."""
    there = {str(one).partition("/")[0] for one in room["members"]}
    return [one for one in room["memory"] if _secret(one, there)]


def without(room: Room) -> Room:
    """Return the room without them, and how many they are."""
    secret = withheld(room)
    return {**room, "memory": [one for one in room["memory"] if one not in secret], "withheld": len(secret)}


def _secret(line: Room, there: set[str]) -> bool:
    readers = line.get("readers", (EVERYBODY,))
    return EVERYBODY not in readers and not there <= {owner_of(line), *readers}
