"""Turn a function's type hints and docstring into the JSON schema that models see, and a check of what they send.

Imported with the SDK, so pydantic waits in `perdure.agent.arguments` until a tool is declared. The function never runs.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perdure.agent.context import ToolContext
from perdure.agent.docstring import describe
from perdure.core.codec import Json
from perdure.errors import InvalidInput

Function = Callable[..., Any]
Validate = Callable[[object], dict[str, Any]]
"""From decoded JSON to keyword arguments. Raises `InvalidArguments`."""


_A_FIELD = (
    "has `Field(...)` for its default, which Python would hand to the function as it is, and whose bounds nobody would "
    "check: write `Annotated[TYPE, Field(...)]`, and the default itself, if it has one, behind `=`"
)


class InvalidArguments(ValueError):
    """What a model sent does not fit. `lines` says it field by field."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


@dataclass(frozen=True, slots=True)
class Wanted:
    """One parameter that a model fills in."""

    hint: Any
    said: str | None
    """What the docstring says of it."""
    default: object = inspect.Parameter.empty


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """What a function takes, as a model, a validator and a caller need to know it."""

    description: str
    """From the docstring, without what it says of parameters."""
    schema: dict[str, Json]
    """JSON schema of the arguments: an object that allows no others."""
    context: str | None
    """The parameter that a `ToolContext` goes to."""
    validate: Validate


def read_signature(function: Function, names: Mapping[str, Any] | None = None) -> Signature:
    """Read a function's parameters. `names` are the local names its annotations may use beside its module's.

    Raises `InvalidInput` (`bad_schema`) naming the function and the parameter.
    """
    text, said = describe(function.__doc__)
    scope = _scope(function, names)
    wanted: dict[str, Wanted] = {}
    context: str | None = None
    for parameter in _parameters(function):
        if _is_field(parameter.default):
            raise _bad(function, parameter.name, _A_FIELD)
        hint = _hint(function, parameter, scope)
        if not _is_context(hint):
            wanted[parameter.name] = Wanted(hint, said.get(parameter.name), parameter.default)
        elif context is None:
            context = parameter.name
        else:
            raise _bad(function, parameter.name, f"is a second ToolContext beside {context!r}; keep one")
    schema, validate = _compile(function, wanted)
    return Signature(text, schema, context, validate)


def _parameters(function: Function) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise _bad(function, None, "has no signature that Python can read; wrap it in a `def`") from None
    for number, parameter in enumerate(parameters):
        match parameter.kind:
            case inspect.Parameter.VAR_POSITIONAL | inspect.Parameter.VAR_KEYWORD:
                raise _bad(function, str(parameter).split(":")[0], "has no name a model could use; name each parameter")
            case inspect.Parameter.POSITIONAL_ONLY:
                raise _bad(function, parameter.name, "is positional-only; tools are called with names, so drop the `/`")
            case _ if number == 0 and parameter.name in ("self", "cls"):
                raise _bad(function, parameter.name, "makes it a method; declare a function, or pass a bound method")
            case _:
                continue
    return parameters


def _scope(function: Function, names: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    inner = inspect.unwrap(function)
    inner = getattr(inner, "__func__", inner)
    cells = zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True) if hasattr(inner, "__code__") else ()
    closure = {name: cell.cell_contents for name, cell in cells if _filled(cell)}
    return getattr(inner, "__globals__", {}), {**(names or {}), **closure}


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # the function refers to itself, or to what is assigned after it
        return False


def _hint(function: Function, parameter: inspect.Parameter, scope: tuple[dict[str, Any], dict[str, Any]]) -> Any:
    """Evaluate one annotation alone, so that a bad one can be named. The return type is never touched."""
    if parameter.annotation is inspect.Parameter.empty:
        return Any
    one = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return typing.get_type_hints(one, *scope, include_extras=True)[parameter.name]
    except Exception as error:  # noqa: BLE001 - an annotation is any expression, and may raise anything
        raise _bad(
            function,
            parameter.name,
            f"has the type hint {parameter.annotation!r}, which cannot be evaluated ({type(error).__name__}: {error}). "
            "Import the name where the function is defined, not under TYPE_CHECKING",
        ) from None


def _is_field(default: object) -> bool:
    """Say whether a default is pydantic's word on a field. If pydantic is not loaded, none is."""
    kind: Any = getattr(sys.modules.get("pydantic.fields"), "FieldInfo", None)
    return kind is not None and isinstance(default, kind)


def _is_context(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin is typing.Annotated or origin is typing.Union or origin is types.UnionType:
        return any(_is_context(part) for part in typing.get_args(hint))
    return hint is ToolContext


def _compile(function: Function, wanted: Mapping[str, Wanted]) -> tuple[dict[str, Json], Validate]:
    from perdure.agent.arguments import compile_arguments  # noqa: PLC0415 - pydantic: 100 ms that only tools pay

    try:
        return compile_arguments(wanted)
    except Exception as error:  # noqa: BLE001 - types bring their own schema hooks, which may raise anything
        for name, one in wanted.items():
            try:
                compile_arguments({name: one})
            except Exception as fault:  # noqa: BLE001 - as above
                raise _bad(function, name, f"has a type that JSON cannot carry: {_first_line(fault)}") from None
        raise _bad(function, None, f"has parameters that make no schema together: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".") or type(error).__name__


def _bad(function: Function, parameter: str | None, why: str) -> InvalidInput:
    name = getattr(function, "__qualname__", None) or repr(function)
    where = f"tool function {name}" + (f": parameter {parameter!r}" if parameter else "")
    return InvalidInput(f"{where} {why}.", code="bad_schema", function=name, parameter=parameter)
