"""Values to text and back. The first return of a step is the value that a re-run would decode.

JSON only: no pickle, no type revival. Text keeps what databases' own JSON types refuse or rewrite: NUL, lone
surrogates, large integers, key order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, cast

import orjson

from perdure.errors import InvalidInput, LimitExceeded

if TYPE_CHECKING:
    Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
else:  # who reads annotations at run time (pydantic) cannot follow an alias that contains itself
    Json = Any

MAX_VALUE_BYTES = 8 * 1024 * 1024
"""Largest encoded value of one step, argument list or message."""

MAX_DEPTH = 64
"""Deepest nesting: far below where parsers of any language give up."""


ENVELOPE_BYTES = 64 * 1024
"""What an event may hold around a value of the largest size."""


def encode(value: Any, what: str = "value", limit: int = MAX_VALUE_BYTES) -> str:
    """Return `value` as JSON text.

    Accepts JSON types, dataclasses and pydantic models (as their JSON form), tuples (as lists).
    Raises `InvalidInput` (`unserialisable`) naming the path of the offending part, and `LimitExceeded` (`too_large`)
    above `limit` bytes. NaN and infinities are refused: JSON has none, and a re-run would see something else.
    """
    plain = to_json(value, what)
    try:
        text = orjson.dumps(plain).decode()
    except (TypeError, ValueError):  # lone surrogates and integers over 64 bits, which orjson refuses
        text = json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    if len(text) > limit // 4 and len(text.encode()) > limit:
        raise LimitExceeded(
            f"{what} takes {len(text.encode()):,} bytes; at most {limit:,} are stored per value. "
            "Write it to a file or an object store and return its address.",
            code="too_large",
            limit=limit,
        )
    return text


def decode(text: str | bytes) -> Any:
    """Return the value of JSON text. Raises `ValueError` on anything else."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:  # what `encode` wrote through the fallback
        return json.loads(text)


def round_trip(value: Any, what: str = "value") -> tuple[str, Any]:
    """Return the stored text of `value` and the value that decoding it gives."""
    text = encode(value, what)
    return text, decode(text)


def digest(*parts: Any) -> str:
    """Return a short fingerprint of JSON values, indifferent to the order of keys."""
    state = hashlib.blake2b(digest_size=12)
    for part in parts:
        state.update(_canonical(part))
        state.update(b"\x1f")
    return state.hexdigest()


def _canonical(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):
        return json.dumps(to_json(value), sort_keys=True, separators=(",", ":")).encode()


def to_json(value: Any, what: str = "value", depth: int = 0) -> Json:
    """Return `value` with only JSON types in it, or raise `InvalidInput` naming where it is not."""
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise _unserialisable(what, value, "JSON has no NaN and no infinities; use None or text")
        return value
    if depth >= MAX_DEPTH:
        raise _unserialisable(what, value, f"it is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[Any, Any]", value), what, depth)
    if isinstance(value, (list, tuple)):
        return [to_json(item, f"{what}[{i}]", depth + 1) for i, item in enumerate(cast("Sequence[Any]", value))]
    if isinstance(value, int):
        return int(value)
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return to_json(value.model_dump(mode="json"), what, depth + 1)
    if is_dataclass(value) and not isinstance(value, type):
        return to_json(asdict(value), what, depth + 1)
    raise _unserialisable(what, value, "return JSON types, a dataclass or a pydantic model")


def _mapping(value: Mapping[Any, Any], what: str, depth: int) -> Json:
    plain: dict[str, Json] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise _unserialisable(what, key, "keys must be text: other keys change on the way through JSON")
        plain[key] = to_json(item, f"{what}.{key}", depth + 1)
    return plain


def _unserialisable(what: str, value: object, hint: str) -> InvalidInput:
    return InvalidInput(
        f"{what} is a {type(value).__name__} ({value!r:.80}), which cannot be stored: {hint}.", code="unserialisable"
    )
