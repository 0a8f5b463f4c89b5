"""Whose text a wake was shown, and what of it not all in the room may read.

Worked out of what was recorded, never asked of the model. Pure: the same room gives the same labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from perdure.core.rooms import EVERYBODY, PRIVATE

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
    """(owner, readers) of lines shown that are for some companies alone, sorted, and of what was kept of such a line of
    others. Whether all in the room may read one is asked when something is done: somebody may have come by then."""


def labels_of(room: Room, company: str, heard: Iterable[str] = ()) -> Labels:
    """Return the labels of a wake of this company's agent that was shown all of this, and what `heard` tools gave."""
    steered: set[str] = set()
    for item in items_of(room):
        steered |= sources_of(item, company)
    for one in room.get(FILES, ()):
        steered |= {f"file:{one['id']}", *sources_of(one, company)}
    steered |= {f"tool:{one}" for one in heard}
    secrets = {secret for one in room["memory"] if _for_some(one) for secret in _secrets_in(one)}
    return Labels(tuple(sorted(steered)), tuple(sorted(secrets)))


def sources_of(item: Room, company: str) -> set[str]:
    """Return whose text an item is, or was written under: content keeps its label, whoever passes it on."""
    labels = (one for one in item.get("steered_by", ()) if not one.startswith(PRIVATE))
    return {owner_of(item), *labels} - {company}


def _secrets_in(line: Room) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield whose a line is that is for some alone, and whose lines of that kind it was kept of, with its readers."""
    kept_of = (one.removeprefix(PRIVATE) for one in line.get("steered_by", ()) if one.startswith(PRIVATE))
    for owner in (owner_of(line), *kept_of):
        yield owner, tuple(line["readers"])


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
    return _for_some(line) and not there <= {owner_of(line), *line["readers"]}


def _for_some(line: Room) -> bool:
    return EVERYBODY not in line.get("readers", (EVERYBODY,))
