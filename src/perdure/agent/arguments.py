"""Build a JSON schema and a validator for a function's parameters. The one module of tools that imports pydantic.

Imported when the first tool is declared, never before.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict  # pydantic refuses the standard library's before 3.12

from perdure.agent.schema import InvalidArguments, Validate, Wanted
from perdure.core import codec
from perdure.core.codec import Json
from perdure.errors import PerdureError

SHOWN = 100
"""Characters of a wrong value that are quoted back."""


def compile_arguments(wanted: Mapping[str, Wanted]) -> tuple[dict[str, Json], Validate]:
    """Return the JSON schema of an object with these fields and no others, and its validator.

    Raises whatever pydantic, or a type's own hook, raises for a type that has no schema.
    """
    shape: Any = cast("Any", TypedDict)("arguments", {name: _field(one) for name, one in wanted.items()})
    shape.__pydantic_config__ = ConfigDict(extra="forbid")
    adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)
    schema = cast("dict[str, Json]", codec.to_json(adapter.json_schema(schema_generator=_Untitled), "schema"))
    schema.pop("title", None)

    def validate(args: object) -> dict[str, Any]:
        try:
            return adapter.validate_python(args)
        except ValidationError as error:
            raise InvalidArguments(_explain(error)) from None

    return schema, validate


class _Untitled(GenerateJsonSchema):
    """Leaves out titles that repeat a field's name: the model pays for every token."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _field(one: Wanted) -> Any:
    """Return the annotation of one field; what its author wrote with `Annotated` wins over the docstring."""
    kind, *extras = typing.get_args(one.hint) if typing.get_origin(one.hint) is typing.Annotated else [one.hint]
    optional = one.default is not inspect.Parameter.empty
    field = Field(description=one.said, json_schema_extra=_default(one.default) if optional else None)
    whole = typing.Annotated[(kind, field, *extras)]
    return typing.NotRequired[whole] if optional else typing.Required[whole]


def _default(value: object) -> dict[str, Any] | None:
    """Show the default to the model if JSON can. A parameter left out is left to the function itself."""
    try:
        return {"default": codec.to_json(value)}
    except PerdureError:
        return None


def _explain(error: ValidationError) -> list[str]:
    """Say, one line a field, what is wrong: field, expected, found."""
    return [
        _line(one["loc"], one["type"], one["msg"], one["input"])
        for one in error.errors(include_url=False, include_context=False)
    ]


def _line(where: tuple[int | str, ...], kind: str, expected: str, found: object) -> str:
    field = ".".join(str(part) for part in where) or "arguments"
    if kind == "missing":
        return f"{field}: required, and missing"
    if kind == "extra_forbidden":
        return f"{field}: there is no such parameter"
    expected = expected.removeprefix("Value error, ")
    return f"{field}: {expected[:1].lower()}{expected[1:]}, found {_shown(found)}"


def _shown(value: object) -> str:
    try:
        text = codec.encode(value)
    except PerdureError:
        text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
