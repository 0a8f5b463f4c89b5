"""Hold a value against any JSON schema, by jsonschema: in bounded work, and with the same words in every process.

A model's call is read from the recorded reply whenever its execution is run again. What is said of it then has to be
what was said first, so nothing here depends on the order of a set, on time, or on how deep the caller stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from perdure.agent.patterns import matches, name_patterns, one_draft, refuse_slow_names
from perdure.core.codec import Json

if TYPE_CHECKING:
    from jsonschema import ValidationError

STEPS = 100_000
"""Keywords that are looked at for one value: some tenths of a second. A schema whose references double at each level
would take days."""
LEVELS = 150
"""Keywords inside keywords: far below where Python gives up, and some of what it gives is taken already."""

Keyword = Callable[[Any, Any, Json, Any], "Iterator[ValidationError] | None"]
"""Given the validator, what the schema says, the value, and the schema."""


class _Refused(Exception):
    """It takes more than is allowed; says what."""


class _Work:
    """What was done for one value. Owner: `full_check`'s caller, for one call."""

    __slots__ = ("levels", "steps")

    def __init__(self) -> None:
        self.steps = 0
        self.levels = 0

    def enter(self) -> None:
        self.steps += 1
        self.levels += 1
        if self.steps > STEPS:
            raise _Refused(f"to hold them against the schema takes more than {STEPS:,} steps")
        if self.levels > LEVELS:
            raise _Refused(_TOO_DEEP)


_TOO_DEEP = f"the schema, or what is held against it, is nested deeper than {LEVELS} levels"
_WORK: ContextVar[_Work] = ContextVar("perdure_schema_work")


def full_check(schema: Json) -> Callable[[Json], str | None]:
    """Return a function that says where a value departs from the schema, or None if nowhere.

    It raises whatever the library raises for a schema that cannot be used: it is its author's.
    """
    from referencing import Registry  # noqa: PLC0415 - it doubles the import time of this module

    registry: Any = Registry
    decoded = one_draft(schema)
    # A registry of our own: the default one fetches whatever address a `$ref` names, from within the server.
    validator, names = _validator()(decoded, registry=registry()), name_patterns(decoded)

    def problem(value: Json) -> str | None:
        refuse_slow_names(names, value)
        token = _WORK.set(_Work())
        try:
            error: Any = next(iter(validator.iter_errors(value)), None)
        except _Refused as refused:
            return str(refused)
        except RecursionError:
            return _TOO_DEEP
        finally:
            _WORK.reset(token)
        if error is None:
            return None
        where = error.json_path.removeprefix("$").lstrip(".")
        return f"{where}: {error.message}" if where else str(error.message)

    return problem


@cache
def _validator() -> Any:
    """Return jsonschema's class with all keywords counted, and our own of those that take a time without bound, or that
    tell things in the order of a set."""
    from jsonschema import Draft202012Validator, validators  # noqa: PLC0415 - it is slow to import

    library: Any = Draft202012Validator
    known: dict[str, Keyword] = {
        **library.VALIDATORS,
        "pattern": _pattern,
        "uniqueItems": _unique_items,
        "additionalProperties": _additional(library.VALIDATORS["additionalProperties"]),
    }
    return cast("Any", validators).extend(library, {name: _counted(keyword) for name, keyword in known.items()})


def _counted(keyword: Keyword) -> Keyword:
    def counted(validator: Any, wanted: Any, value: Json, schema: Any) -> Iterator[ValidationError]:
        work = _WORK.get()
        work.enter()
        try:
            yield from keyword(validator, wanted, value, schema) or ()
        finally:
            work.levels -= 1

    return counted


def _pattern(validator: Any, wanted: str, value: Json, _schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(value, "string") and not matches(wanted, cast("str", value)):
        yield _error(f"{value!r} does not match {wanted!r}")


def _unique_items(validator: Any, wanted: Any, value: Json, _schema: Any) -> Iterator[ValidationError]:
    """Compare by hashes: the library compares objects each with each."""
    if not wanted or not validator.is_type(value, "array"):
        return
    keys = [_key(item) for item in cast("list[Json]", value)]
    if len(set(keys)) < len(keys):
        yield _error(f"{value!r} has non-unique elements")


def _key(value: Json) -> object:
    """Return something that is equal and hashable where JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, dict):
        return (dict, frozenset((name, _key(item)) for name, item in value.items()))
    if isinstance(value, list):
        return (list, tuple(_key(item) for item in value))
    return (bool, value) if isinstance(value, bool) else value


def _additional(library: Keyword) -> Keyword:
    """Look at further properties in the value's own order: the library keeps them in a set, and tells of the first."""

    def additional(validator: Any, wanted: Any, value: Json, schema: Any) -> Iterator[ValidationError]:
        if not validator.is_type(wanted, "object") or not isinstance(value, dict):
            yield from library(validator, wanted, value, schema) or ()
            return
        patterns = "|".join(schema.get("patternProperties", {}))
        for name, item in value.items():
            if name not in schema.get("properties", {}) and not (patterns and re.search(patterns, name)):
                yield from validator.descend(item, wanted, path=name)

    return additional


def _error(message: str) -> ValidationError:
    from jsonschema import ValidationError  # noqa: PLC0415 - as above

    return ValidationError(message)
