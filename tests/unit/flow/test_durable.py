"""Declaring durable functions: checked at once, still plain functions, bound to the code that they are."""

from __future__ import annotations

import types
from datetime import timedelta
from typing import Any

import pytest

from perdure import durable
from perdure.errors import InvalidInput
from perdure.flow.durable import DurableDefinition, build_of, durable_definition, is_durable

pytestmark = pytest.mark.anyio


@durable
async def greet(name: str) -> str:
    return f"hello {name}"


async def test_a_declared_function_is_the_very_function() -> None:
    assert await greet("Ann") == "hello Ann"
    definition = durable_definition(greet)
    assert definition.function is greet
    assert definition.name == "greet"
    assert durable_definition(definition) is definition
    assert is_durable(greet)
    assert is_durable(definition)
    assert not is_durable(len)


def test_options_are_kept() -> None:
    @durable(name="onboard", build="7", cleanup_timeout=timedelta(seconds=2))
    async def whatever() -> None: ...

    definition = durable_definition(whatever)
    assert (definition.name, definition.build, definition.options.cleanup_ms) == ("onboard", "7", 2_000)


def test_a_build_follows_the_source_and_nothing_else() -> None:
    def made(text: str) -> Any:
        scope: dict[str, Any] = {}
        exec(compile(text, "<made>", "exec"), scope)
        return scope["f"]

    one, same, other = (made(f"async def f():\n    return {value}") for value in (1, 1, 2))
    assert build_of(one) == build_of(same) != build_of(other)
    assert build_of(greet) == durable_definition(greet).build


@pytest.mark.parametrize(
    ("declare", "why"),
    [
        (lambda: durable(lambda: None), "no `async def`"),  # pyright: ignore[reportArgumentType]
        (lambda: durable(name="x" * 201)(greet), "1 to 200 characters"),
        (lambda: durable(build="")(greet), "should have a build"),
        (lambda: durable(cleanup_timeout=timedelta(-1))(greet), "cleanup_timeout"),
        (lambda: durable_definition(test_options_are_kept), "is not declared"),
    ],
)
def test_what_cannot_be_declared_is_refused_at_once(declare: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        declare()
    assert refused.value.code == "bad_function"


def test_variable_arguments_are_refused() -> None:
    async def many(*names: str) -> None: ...

    with pytest.raises(InvalidInput, match=r"\*names"):
        durable(many)


def test_input_becomes_arguments() -> None:
    async def none() -> None: ...

    async def one(customer: str) -> None: ...

    async def maybe(customer: str = "x") -> None: ...

    async def two(a: int, b: int = 2) -> None: ...

    def arguments(function: Any, value: Any) -> Any:
        return DurableDefinition("f", function, "b").arguments(value)

    assert arguments(none, None) == ((), {})
    assert arguments(one, {"a": 1}) == (({"a": 1},), {})
    assert arguments(one, None) == ((None,), {})
    assert arguments(maybe, None) == ((), {})
    assert arguments(two, {"a": 1}) == ((), {"a": 1})
    for function, value in ((none, 1), (two, [1, 2]), (two, {"c": 1}), (two, None)):
        with pytest.raises(InvalidInput) as refused:
            arguments(function, value)
        assert refused.value.code == "bad_input"


def test_a_function_without_source_has_a_build() -> None:
    code = compile("async def f():\n    return 1", "<nowhere>", "exec").co_consts[0]
    assert isinstance(code, types.CodeType)
    function = types.FunctionType(code, {})
    assert len(build_of(function)) == 12
