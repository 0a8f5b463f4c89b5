"""Values to text and back. The first return of a step is the value that a re-run would decode.

JSON only: no pickle, no type revival. Text keeps what databases' own JSON types refuse or rewrite: NUL, lone
surrogates, large integers, key order.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from enum import Enum
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

MAX_INTEGER_BITS = 8_192
"""Longest whole number: no language's reader stumbles over it, and Python's own stops at 4,300 digits."""

ENVELOPE_BYTES = 64 * 1024
"""What an event may hold around a value of the largest size."""

_STRICT = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS
"""Only what `to_json` reads in the same way: orjson leaves out fields of a dataclass, and writes dates in a form of its
own."""

_NO_FLOATS = frozenset({str, int, bool, type(None)})
"""The types that `_numbers_only` need not look into."""

_DIGITS = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else ord(" ") for byte in range(256))
_LONG = b"0" * 19
"""From so many digits on, a whole number may pass 64 bits."""


def encode(value: Any, what: str = "value", limit: int = MAX_VALUE_BYTES) -> str:
    """Return `value` as JSON text.

    Accepts JSON types, dataclasses and pydantic models (as their JSON form), tuples (as lists), enums and UUIDs.
    Raises `InvalidInput` (`unserialisable`) naming the path of the offending part, and `LimitExceeded` (`too_large`)
    above `limit` bytes. NaN and infinities are refused: JSON has none, and a re-run would see something else.
    """
    text = _fast(value)
    if text is None:
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


def encode_json(value: Json, what: str = "value", limit: int = MAX_VALUE_BYTES) -> str:
    """Like `encode`, for what is known to be JSON because it came out of `decode` or `to_json`: no second look."""
    try:
        text = orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return encode(value, what, limit)
    return text if len(text) <= limit // 4 else encode(value, what, limit)


def _fast(value: Any) -> str | None:
    """Return the text of a value that needs no second look, or None.

    orjson writes NaN as null, and nests deeper than we do: text with many brackets is looked at, and where there is a
    null in it, every number.
    """
    try:
        raw = orjson.dumps(value, option=_STRICT)
    except (TypeError, ValueError):
        return None
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH or (b"null" in raw and not _numbers_only(value)):
        return None
    return raw.decode()


def _numbers_only(value: Any) -> bool:
    """Say whether a value that orjson took surely holds no NaN and no infinity."""
    kind = value.__class__
    if kind is dict or kind is list or kind is tuple:
        parts = value.values() if kind is dict else value
        return all(_numbers_only(part) for part in parts if part.__class__ not in _NO_FLOATS)
    return math.isfinite(value) if kind is float else kind in _NO_FLOATS


def weight(value: Json) -> int:
    """Return about how many bytes of text a value takes. Never raises: enough to tell a large one from a small one."""
    if value.__class__ is str:
        return len(cast("str", value))
    try:
        return len(orjson.dumps(value))
    except (TypeError, ValueError):  # lone surrogates and integers over 64 bits
        return len(json.dumps(value, default=repr))


def decode(text: str | bytes) -> Any:
    """Return the value of JSON text, whole numbers of any length included. Raises `ValueError` on anything else."""
    try:
        value = orjson.loads(text)
        if len(text) < len(_LONG) or not _has_long_number(text):
            return value
    except orjson.JSONDecodeError:  # what `encode` wrote through the fallback, or no JSON at all
        pass
    try:
        text = text if isinstance(text, str) else text.decode()
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("JSON is nested too deep to be read") from None


def _has_long_number(text: str | bytes) -> bool:
    """Say whether orjson may have read a whole number as a float: it does so above 64 bits, without a word."""
    raw = text.encode() if isinstance(text, str) else text
    return _LONG in raw.translate(_DIGITS)


def _finite(written: str) -> float:
    number = float(written)
    if math.isfinite(number):
        return number
    raise ValueError(f"{written[:20]} is no number in JSON, or one too large")


def round_trip(value: Any, what: str = "value") -> tuple[str, Any]:
    """Return the stored text of `value` and the value that decoding it gives."""
    text = encode(value, what)
    return text, decode(text)


def digest(*parts: Any) -> str:
    """Return a short fingerprint of JSON values, indifferent to the order of keys."""
    text = b"".join([_canonical(part) + b"\x1f" for part in parts])
    return hashlib.blake2b(text, digest_size=12).hexdigest()


def _canonical(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):
        return json.dumps(to_json(value), sort_keys=True, separators=(",", ":")).encode()


def to_json(value: Any, what: str = "value", depth: int = 0) -> Json:
    """Return `value` with only JSON types in it, or raise `InvalidInput` naming where it is not."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise InvalidInput(
                f"{what} is a whole number of {value.bit_length():,} bits; at most {MAX_INTEGER_BITS:,} can be read "
                "again everywhere. Store it as text.",
                code="unserialisable",
            )
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _unserialisable(what, value, "JSON has no NaN and no infinities; use None or text")
        return value
    if depth >= MAX_DEPTH:
        raise _unserialisable(what, value, f"it is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[Any, Any]", value), what, depth)
    if isinstance(value, (list, tuple)):
        return [to_json(item, f"{what}[{i}]", depth + 1) for i, item in enumerate(cast("Sequence[Any]", value))]
    if isinstance(value, Enum):
        return to_json(value.value, what, depth + 1)
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return to_json(value.model_dump(mode="json"), what, depth + 1)
    if is_dataclass(value) and not isinstance(value, type):
        return to_json(asdict(cast("Any", value)), what, depth + 1)
    return _native(cast("object", value), what)


def _native(value: object, what: str) -> Json:
    """Return the form of what orjson knows and nobody else here: UUIDs."""
    try:
        return orjson.loads(orjson.dumps(value, option=_STRICT))
    except TypeError:
        raise _unserialisable(what, value, "return JSON types, a dataclass or a pydantic model") from None


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
