"""What an execution's code asks its log for, as it travels: each item's fields, and its `type` beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from perdure.core.codec import Json
from perdure.core.items import ActInRoom, HoldAct, Item
from perdure.errors import InvalidInput
from perdure.wire import codec

_SERVERS_ALONE = (ActInRoom, HoldAct)
TYPES: Mapping[str, type[Any]] = {kind.__name__: kind for kind in get_args(Item) if kind not in _SERVERS_ALONE}
"""Every item that a worker may send. Their names travel between releases: no renames."""


def items_to_json(items: Sequence[Item]) -> tuple[dict[str, Any], ...]:
    """Return items as `items_from_json` takes them. Dataclasses inside stay as they are, for the codec to write."""
    return tuple({"type": type(one).__name__, **{name: getattr(one, name) for name in _fields(one)}} for one in items)


def items_from_json(found: Sequence[Mapping[str, Json]]) -> tuple[Item, ...]:
    """Return the items. Raises `InvalidInput` for a type that this release does not know, or fields that do not fit."""
    return tuple(_item(one, number) for number, one in enumerate(found))


def _item(found: Mapping[str, Json], number: int) -> Item:
    kind = TYPES.get(str(found.get("type")))
    if kind is None:
        raise InvalidInput(
            f"items[{number}] is a {str(found.get('type'))[:80]!r}; this server knows {', '.join(sorted(TYPES))}. "
            "Is the worker newer than the server? Upgrade the server first.",
            code="unknown_item",
        )
    return codec.read(kind, {name: value for name, value in found.items() if name != "type"})


def _fields(item: Item) -> tuple[str, ...]:
    return tuple(item.__slots__)
