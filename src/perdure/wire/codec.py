"""Shapes to bytes and back, for both ends. JSON only: no type revival, and what is unknown stays data."""

from __future__ import annotations

import json
from dataclasses import MISSING, Field, asdict, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import orjson

from perdure.errors import InvalidInput
from perdure.wire import strict

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


class Shape(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


MAX_INT = 2**63 - 1
"""Largest number that a store's column holds."""


def dump(value: Any) -> bytes:
    """Return the JSON of a dataclass or of JSON types. What one step could return, this can carry."""
    try:
        return orjson.dumps(value)
    except TypeError:  # lone surrogates and integers over 64 bits
        return json.dumps(value, default=asdict, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


def dump_given(body: Shape) -> bytes:
    """Return the JSON of a request's body, without what is at its default; so these defaults never change.

    A server refuses fields that it does not know, and an older one understands whoever asks nothing new of it.
    """
    given = ((one, getattr(body, one.name)) for one in fields(body))
    return dump({one.name: value for one, value in given if value != _default(one)})


def _default(field: Field[Any]) -> object:
    if field.default is not MISSING:
        return field.default
    return MISSING if field.default_factory is MISSING else field.default_factory()


def read(kind: type[T], value: Any) -> T:
    """Return parsed JSON as `kind`. Raises `InvalidInput` naming each field that does not fit."""
    from pydantic import ValidationError  # noqa: PLC0415 - 100 ms that only who speaks to a server pays

    try:
        return adapter(kind).validate_python(value)
    except ValidationError as error:
        raise misfit(problems(error)) from None


def load(kind: type[T], data: bytes) -> T:
    """Return what a server says as `kind`, however many lists and objects it holds: those of a log came as text, which
    is not counted. Raises `InvalidInput`, or `UserError` (`bad_json`)."""
    return read(kind, strict.parse(data, most=None))


@cache
def adapter(kind: type[T]) -> TypeAdapter[T]:
    """Return the one validator of a type. Building it takes milliseconds, so it is built once."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - as above

    return TypeAdapter(kind)


def problems(error: ValidationError) -> list[tuple[str, str]]:
    """Return (field, what is wrong with it) of each misfit."""
    return [(field_name(item["loc"]), item["msg"]) for item in error.errors(include_url=False, include_context=False)]


def field_name(location: tuple[int | str, ...]) -> str:
    """Return `reports[0].fence` for the parts of a place in a body."""
    name = ""
    for part in location:
        name += f"[{part}]" if isinstance(part, int) else f".{part}"
    return name.removeprefix(".") or "body"


def misfit(found: list[tuple[str, str]]) -> InvalidInput:
    """Return the error that names every field that does not fit."""
    named = "; ".join(f"{field}: {what}" for field, what in found[:5])
    more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
    return InvalidInput(f"The request does not fit: {named}{more}.", fields=[field for field, _ in found[:20]])
