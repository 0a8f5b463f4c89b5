"""`@tool`: what a declaration promises to its author, to models and to servers."""

from __future__ import annotations

import functools
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from perdure.agent.context import ToolContext
from perdure.agent.tool import ToolDefinition, definition_of, tool
from perdure.core.delivery import Delivery
from perdure.core.rules import TaskRules
from perdure.errors import InvalidInput


class Point(BaseModel):
    """A place."""

    x: int
    y: int = 0


@dataclass
class Order:
    id: str
    cents: int = 0


class Colour(Enum):
    RED = "red"


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("must be even")
        return n


def plain(city: str, days: int = 3) -> str:
    """Tell the weather."""
    return f"{city} {days}"


def refused(declare: Callable[[], Any], code: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        declare()
    assert caught.value.code == code
    return caught.value.message


def test_the_function_itself_comes_back() -> None:
    assert tool(plain) is plain
    assert tool(name="weather")(plain) is plain
    assert plain("Rome") == "Rome 3"


def test_a_plain_function_counts_as_a_tool() -> None:
    def fresh(a: int) -> int:
        return a

    definition = definition_of(fresh)
    assert (definition.name, definition.options.delivery) == ("fresh", Delivery.AT_LEAST_ONCE)
    assert definition_of(definition) is definition


def test_spec_says_all_that_a_server_needs() -> None:
    @tool(approval_required=True, delivery="at_most_once", timeout_seconds=1.5, queue="money")
    def refund(order: str, cents: int) -> None:
        """Give money back."""

    assert definition_of(refund).spec() == {
        "name": "refund",
        "description": "Give money back.",
        "schema": {
            "type": "object",
            "properties": {"order": {"type": "string"}, "cents": {"type": "integer"}},
            "required": ["order", "cents"],
            "additionalProperties": False,
        },
        "delivery": "at_most_once",
        "approval_required": True,
        "timeout_ms": 1500,
        "attempts": 1,
        "queue": "money",
        "rules": {"jitter": 0.2},
    }


def test_defaults_are_two_more_tries_two_seconds_apart() -> None:
    spec = definition_of(plain).spec()
    assert (spec["attempts"], TaskRules().pause_ms, spec["timeout_ms"]) == (3, 2000, 0)
    assert (spec["delivery"], spec["approval_required"], spec["queue"]) == ("at_least_once", False, "default")


@pytest.mark.parametrize("bare", [True, False])
def test_the_context_is_injected_and_unseen(bare: bool) -> None:
    def first(ctx: ToolContext, a: int) -> int:
        return a

    def last(a: int, context: ToolContext | None = None) -> int:
        return a

    for function, name in ((first, "ctx"), (last, "context")):
        definition = definition_of(function) if bare else definition_of(tool(function))
        assert list(definition.schema["properties"]) == ["a"]  # type: ignore[arg-type]
        assert definition.signature.context == name


def test_two_contexts_are_refused() -> None:
    def f(a: ToolContext, b: ToolContext) -> None: ...

    assert "second ToolContext" in refused(lambda: tool(f), "bad_schema")


GOOGLE = """Find flights.

    Looks in all airlines.

    Args:
        origin (str): Where from,
            as a code.
        limit: How many.

    Returns:
        list: flights
    """
NUMPY = """Find flights.

    Looks in all airlines.

    Parameters
    ----------
    origin : str
        Where from,
        as a code.
    limit
        How many.

    Returns
    -------
    list
        flights
    """
SPHINX = """Find flights.

    Looks in all airlines.

    :param str origin: Where from,
        as a code.
    :param limit: How many.
    :returns: flights
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_docstrings_describe_tool_and_parameters(docstring: str, caplog: pytest.LogCaptureFixture) -> None:
    def find(origin: str, limit: int = 5) -> list[str]:
        return [origin] * limit

    find.__doc__ = docstring
    definition = definition_of(find)
    assert definition.description == "Find flights.\n\nLooks in all airlines."
    assert definition.schema["properties"] == {
        "origin": {"type": "string", "description": "Where from, as a code."},
        "limit": {"type": "integer", "description": "How many.", "default": 5},
    }
    assert not caplog.records


def test_a_note_with_a_colon_is_not_taken_for_a_section() -> None:
    def f(a: int) -> None:
        """Do it. Warning: slow.

        Steps: one, two.
        """

    assert definition_of(f).description == "Do it. Warning: slow.\n\nSteps: one, two."


def test_annotated_wins_over_the_docstring() -> None:
    def f(a: Annotated[int, Field(ge=1, description="mine")]) -> None:
        """Do.

        Args:
            a: yours
        """

    assert definition_of(f).schema["properties"] == {"a": {"type": "integer", "minimum": 1, "description": "mine"}}


@pytest.mark.parametrize("default", [Field(gt=0), Field(default=5, le=500), Field(default_factory=list)])
def test_a_field_for_a_default_is_refused_as_nobody_would_hold_its_bounds(default: Any) -> None:
    def refund(order: str, cents: int = default) -> None: ...

    said = refused(lambda: tool(refund), "bad_schema")
    assert "'cents'" in said
    assert "Annotated[TYPE, Field(...)]" in said


def test_rich_types_arrive_as_declared() -> None:
    def f(p: Point, order: Order, when: datetime, colour: Colour, mode: Literal["a", "b"], tags: set[str]) -> None: ...

    kwargs = definition_of(f).validate(
        {
            "p": {"x": 1},
            "order": {"id": "7"},
            "when": "2026-01-02T03:04:05Z",
            "colour": "red",
            "mode": "a",
            "tags": ["t", "t"],
        }
    )
    assert (kwargs["p"], kwargs["order"], kwargs["colour"]) == (Point(x=1), Order("7"), Colour.RED)
    assert kwargs["when"].year == 2026
    assert kwargs["tags"] == {"t"}


def test_an_argument_left_out_is_left_to_the_function() -> None:
    sentinel = object()

    def f(a: int = 1, b: Any = sentinel) -> None: ...

    definition = definition_of(f)
    assert definition.validate({}) == {}
    assert definition.schema["properties"] == {"a": {"type": "integer", "default": 1}, "b": {}}


def test_names_that_pydantic_uses_itself_are_free() -> None:
    def f(schema: str, copy: bool, _private: int, model_config: dict[str, int]) -> None: ...

    args = {"schema": "s", "copy": True, "_private": 1, "model_config": {"a": 1}}
    assert definition_of(f).validate(args) == args


def test_bad_arguments_are_told_field_by_field() -> None:
    def book(p: Point, nights: int, even: Even | None = None) -> None: ...

    message = refused(
        lambda: definition_of(book).validate({"p": {"x": "q"}, "even": {"n": 3}, "extra": 1}), "invalid_arguments"
    )
    assert message == (
        "The arguments of tool book do not fit its schema. p.x: input should be a valid integer, unable to parse "
        'string as an integer, found "q"; nights: required, and missing; even.n: must be even, found 3; '
        "extra: there is no such parameter."
    )


def test_a_huge_wrong_value_is_quoted_short() -> None:
    message = refused(lambda: definition_of(plain).validate({"city": ["x" * 10_000]}), "invalid_arguments")
    assert len(message) < 400


def test_a_type_without_schema_names_function_and_parameter() -> None:
    def send(text: str, sock: socket.socket) -> None: ...

    def call(back: Callable[[int], int]) -> None: ...

    assert "send: parameter 'sock'" in refused(lambda: tool(send), "bad_schema")
    assert "call: parameter 'back'" in refused(lambda: tool(call), "bad_schema")


def test_a_hint_that_cannot_be_evaluated_names_the_parameter() -> None:
    def f(a: int, b: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821

    message = refused(lambda: tool(f), "bad_schema")
    assert "parameter 'b'" in message
    assert "Nowhere" in message


def test_the_return_hint_is_nobodys_business() -> None:
    def f(a: int) -> Nowhere: ...  # type: ignore[name-defined] # noqa: F821

    assert definition_of(tool(f)).name == "f"


def test_local_types_are_found_where_the_tool_is_declared() -> None:
    class Local(BaseModel):
        n: int

    @tool
    def bare(a: Local) -> None: ...

    @tool(retries=0)
    def with_options(a: list[Local]) -> None: ...

    assert definition_of(bare).validate({"a": {"n": 1}}) == {"a": Local(n=1)}
    assert definition_of(with_options).validate({"a": [{"n": 1}]}) == {"a": [Local(n=1)]}


def test_parameters_without_names_are_refused() -> None:
    def stars(*names: str) -> None: ...

    def keywords(**names: str) -> None: ...

    def positional(a: int, /) -> None: ...

    for function in (stars, keywords, positional):
        assert function.__name__ in refused(functools.partial(tool, function), "bad_schema")


def test_methods_are_refused_and_bound_ones_work() -> None:
    class Desk:
        def lend(self, title: str) -> str:
            return f"{title} lent"

    assert "method" in refused(lambda: tool(Desk.lend), "bad_schema")
    definition = definition_of(Desk().lend)
    assert definition.function(**definition.validate({"title": "Emma"})) == "Emma lent"


def test_what_is_no_function_is_refused() -> None:
    def items() -> Any:
        yield 1

    assert "generator" in refused(lambda: tool(items), "bad_tool")
    assert "not a function" in refused(lambda: tool(Point), "bad_tool")
    assert "no name" in refused(lambda: definition_of(functools.partial(plain, "x")), "bad_tool")
    assert "no name" in refused(lambda: definition_of(7), "bad_tool")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeout_seconds": -1}, "timeout_seconds=-1"),
        ({"timeout_seconds": 0}, "timeout_seconds=0"),
        ({"timeout_seconds": "3"}, "timeout_seconds='3'"),
        ({"timeout_seconds": float("nan")}, "timeout_seconds=nan"),
        ({"retry_pause_seconds": -0.5}, "retry_pause_seconds=-0.5"),
        ({"retries": -1}, "retries=-1"),
        ({"retries": 1.5}, "retries=1.5"),
        ({"retries": True}, "retries=True"),
        ({"delivery": "twice"}, "'repeatable', 'at_least_once', 'at_most_once', 'transactional'"),
        ({"queue": ""}, "queue=''"),
        ({"queue": "a b"}, "queue='a b'"),
        ({"name": "two words"}, "models do not accept"),
        ({"timeout": 3}, "did you mean 'timeout_seconds'?"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    message = refused(lambda: tool(**options)(plain), "bad_tool")
    assert said in message
    assert "?." not in message


def test_at_most_once_may_say_no_retries() -> None:
    def f() -> None: ...

    assert definition_of(tool(retries=0, delivery="at_most_once")(f)).options.attempts == 1
    assert definition_of(tool(delivery="at_most_once")(f)).options.attempts == 1


def test_at_most_once_may_be_tried_again_on_its_authors_word() -> None:
    def f() -> None: ...

    assert definition_of(tool(retries=2, delivery="at_most_once")(f)).options.attempts == 3


def test_a_decorator_around_a_tool_is_what_runs() -> None:
    @tool(name="inner", retries=7)
    def inner(a: int) -> int:
        return a

    @functools.wraps(inner)
    def outer(a: int) -> int:
        return inner(a) * 100

    definition = definition_of(outer)
    assert (definition.name, definition.options.attempts) == ("inner", 8)
    assert definition.function(a=2) == 200


def test_async_functions_are_told_apart() -> None:
    async def later(a: int) -> int:
        return a

    assert definition_of(later).is_async
    assert not definition_of(plain).is_async


def test_a_definition_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        definition_of(plain).name = "other"  # type: ignore[misc]
    assert isinstance(definition_of(plain), ToolDefinition)


def test_importing_tools_imports_no_pydantic() -> None:
    program = (
        "import sys, perdure.agent.tool as t\n"
        "heavy = {'pydantic', 'pydantic_ai', 'griffe'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
        "@t.tool\ndef f(a: int) -> int:\n  'Plain.'\n  return a\n"
        "assert 'pydantic' in sys.modules and not {'griffe', 'pydantic_ai'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
