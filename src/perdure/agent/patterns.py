"""Match the patterns of schemas in bounded time: a pattern is an author's, the text a model's, the server everybody's.

`re` tries one way after the other: `^(a+)+$` takes twice as long for each letter more, and nothing else runs meanwhile.
A pattern that can only be tried in few ways is left to it. Any other goes to an engine that takes time by the length of
the text alone, and that knows neither look-around nor references back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, cast

from perdure.core.codec import Json

STEPS = 1_000_000
"""Ways in which `re` may try a pattern at a text: some hundredths of a second."""
USUAL_LENGTH = 64
"""Of what patterns are held against."""
_PARSER: Any = cast("Any", re)._parser  # what `re` itself reads patterns with; it has no public name
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_LOOKS = ("ASSERT", "ASSERT_NOT")
_STARTS = ("AT_BEGINNING", "AT_BEGINNING_STRING")


class SlowPattern(ValueError):
    """It might take a time without bound, and no other way to match it is known."""


def matches(pattern: str, text: str) -> bool:
    """Say whether a pattern is found in a text, as `re.search` does. Raises `SlowPattern`, and what `re` raises."""
    if _ways(pattern, len(text)) <= STEPS:
        return re.search(pattern, text) is not None
    linear, text = _linear(pattern), text.encode(errors="replace").decode()
    # As `re` does, `$` matches before a last newline too.
    return linear.isinstance_python(text) or (text.endswith("\n") and linear.isinstance_python(text[:-1]))


def refuse_slow_names(patterns: Iterable[str], value: Json) -> None:
    """Raise `SlowPattern` if a value has a name that is too long to be held against patterns of names."""
    if not (whole := "|".join(patterns)):
        return
    longest = max((len(name) for name in _names(value)), default=0)
    if _ways(whole, longest) > STEPS:
        raise SlowPattern(f"patternProperties {whole[:200]!r} may take too long on a name of {longest} characters")


def refuse_slow_patterns(schema: Json) -> None:
    """Raise `SlowPattern` for a schema with a pattern that no text of a usual length could be held against."""
    for one in _objects(schema):
        with suppress(re.error):  # a value that is named so, in `const` or `default`, and no pattern
            if isinstance(pattern := one.get("pattern"), str) and math.isinf(_ways(pattern, USUAL_LENGTH)):
                _linear(pattern)


def name_patterns(schema: Json) -> list[str]:
    """Return the patterns of names that stand anywhere in a schema."""
    found: list[str] = []
    for one in _objects(schema):
        given = one.get("patternProperties")
        found += given if isinstance(given, dict) else ()
    return found


def one_draft(schema: Json) -> Json:
    """Return a schema without what says its draft. Where a part, or a reference to the whole, says one, jsonschema goes
    on with that draft's own checker, which knows nothing of this module."""
    if isinstance(schema, dict):
        return {
            key: one_draft(part) for key, part in schema.items() if not (key == "$schema" and isinstance(part, str))
        }
    return [one_draft(part) for part in schema] if isinstance(schema, list) else schema


def _names(value: Json) -> Iterator[str]:
    for one in _objects(value):
        yield from one


def _objects(value: Json) -> Iterator[dict[str, Json]]:
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            yield one
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)


def _ways(pattern: str, length: int) -> float:
    parsed = _parsed(pattern)
    first = parsed.data[0] if parsed.data else None
    fixed = first is not None and str(first[0]) == "AT" and str(first[1]) in _STARTS
    starts = 1 if fixed and not parsed.state.flags & re.MULTILINE else length + 1
    return starts * _of_all(parsed, length)


@lru_cache(maxsize=1_024)
def _parsed(pattern: str) -> Any:
    return _PARSER.parse(pattern)


def _of_all(items: Any, length: int) -> float:
    ways, looks = 1.0, 0.0
    for name, given in items:
        if str(name) in _LOOKS:  # nothing goes back into it: it is looked at once for each way that leads to it
            looks += ways * _of_all(given[1], length)
        else:
            ways *= _of_one(str(name), given, length)
    return ways + looks


def _of_one(name: str, given: Any, length: int) -> float:
    """Return in how many ways one piece may be tried at a text of a length; infinity if that is not known."""
    if name in _REPEATS:
        least, most, body = given
        inner = _of_all(body, length)
        if most <= 1:
            return 1 + inner
        # What may go several ways, several times over, goes exponentially many.
        return math.inf if inner > 1 else min(most, length) - min(least, length) + 1
    if name == "BRANCH":
        return sum(_of_all(one, length) for one in given[1])
    if name == "SUBPATTERN":
        return _of_all(given[3], length)
    if name == "ATOMIC_GROUP":
        return _of_all(given, length)
    if name == "GROUPREF":
        return length + 1
    return 1 if name in _PLAIN else math.inf


_PLAIN = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "IN", "AT", "FAILURE"})


@lru_cache(maxsize=256)
def _linear(pattern: str) -> Any:
    from pydantic_core import SchemaError, SchemaValidator, core_schema  # noqa: PLC0415 - it is slow to import

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        raise SlowPattern(
            f"the pattern {pattern[:200]!r} may take a time without bound. Write it without repeating what repeats, or "
            "without look-around and references back"
        ) from None
