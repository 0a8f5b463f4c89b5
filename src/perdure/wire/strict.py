"""JSON from strangers: one meaning or none. No I/O; time and memory grow with the text, never faster.

Refused before anything else looks at the value: deep nesting, a key given twice, NaN and infinities (also spelt
`1e400`), integers of more than 4,300 digits, anything that is not UTF-8. Kept as they are: NUL, lone surrogates,
integers of any smaller size.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from perdure.core import codec
from perdure.errors import LimitExceeded, UserError

_LONG_NUMBER = re.compile(rb"[0-9]{19}")
"""An integer that may not fit 64 bits: the fast parser would make a float of it."""
_CONTAINERS = frozenset({dict, list})

MAX_DEPTH = codec.MAX_DEPTH + 6
"""A value of the greatest depth, and the request around it."""
MAX_CONTAINERS = 500_000
"""Most lists and objects in a request: each takes many times its two bytes of text."""


def parse(data: bytes, *, most: int | None = MAX_CONTAINERS) -> Any:
    """Return the value of JSON text. Raises `UserError` (`bad_json`, `json_too_deep`) naming what is wrong, and
    `LimitExceeded` (`json_too_large`) for more than `most` lists and objects; None takes any number."""
    outside = _outside_strings(data)
    containers = outside.count(b"[") + outside.count(b"{")
    if most is not None and containers > most:
        raise LimitExceeded(
            f"The JSON holds {containers:,} lists and objects; at most {most:,} are read. Send less at once, or a part "
            "of it as text.",
            code="json_too_large",
            limit=most,
        )
    value = _parse_slowly(data) if _LONG_NUMBER.search(outside) else _parse_fast(data)
    keys = _count_keys(value)
    return value if keys == outside.count(b":") else _parse_slowly(data)


def _outside_strings(data: bytes) -> bytes:
    if b"\\" in data:
        # In a run of backslashes the pairs go first: what is left of it escapes the quote after it.
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(data.split(b'"')[::2])


def _count_keys(value: Any) -> int:
    """Return how many keys all objects have together. Level by level, so that depth costs no stack."""
    keys = 0
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            if item.__class__ is dict:
                keys += len(item)
                below += [part for part in item.values() if part.__class__ in _CONTAINERS]
            elif item.__class__ is list:
                below += [part for part in item if part.__class__ in _CONTAINERS]
        if not below:
            return keys
        level = below
    raise _too_deep()


def _parse_fast(data: bytes) -> Any:
    try:
        return orjson.loads(data)  # gives up by itself at a depth of 1,024
    except orjson.JSONDecodeError:
        return _parse_slowly(data)  # lone surrogates are fine there; anything else is named


def _parse_slowly(data: bytes) -> Any:
    try:
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
    except UnicodeDecodeError as error:
        raise UserError(f"The body is not UTF-8: {error.reason} at byte {error.start}.", code="bad_json") from None
    except json.JSONDecodeError as error:
        raise UserError(f"The body is not JSON: {error.msg} at character {error.pos}.", code="bad_json") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise UserError(f"The body is not JSON that means one thing: {error}.", code="bad_json") from None


def _too_deep() -> UserError:
    return UserError(
        f"The JSON is nested deeper than {MAX_DEPTH} levels. Flatten it, or send the inner part as text.",
        code="json_too_deep",
        limit=MAX_DEPTH,
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice!r:.80} is given twice")
    return fields


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text:.40} is too large for anything but infinity")
    return number
