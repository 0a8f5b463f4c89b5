"""What a program gives to be started and served: agents, and durable functions. Checks; starts and serves nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from types import ModuleType
from typing import Any

from perdure.agent.agent import Agent
from perdure.core import codec
from perdure.core.blobs import MOST_BLOB_BYTES
from perdure.core.codec import Json
from perdure.core.functions import function_spec
from perdure.core.views import StartRequest
from perdure.core.work import FunctionLane
from perdure.errors import InvalidInput
from perdure.flow.durable import DurableDefinition, durable_definition, is_durable, signature_of

Declared = Agent | DurableDefinition | Callable[..., Coroutine[Any, Any, Any]]
"""An agent, or a function with `@durable` above it."""


def sorted_out(declared: Iterable[Declared]) -> tuple[list[Agent], list[DurableDefinition]]:
    """Return the agents and the durable functions. Raises `InvalidInput` (`bad_function`) for what is neither."""
    agents: list[Agent] = []
    functions: list[DurableDefinition] = []
    for one in declared:
        if isinstance(one, Agent):
            agents.append(one)
        else:
            functions.append(durable_definition(one))
    return agents, functions


def durable_functions(module: ModuleType) -> dict[str, DurableDefinition]:
    """Return the durable functions of a module by their names."""
    found = [durable_definition(one) for one in vars(module).values() if callable(one) and is_durable(one)]
    return {one.name: one for one in found}


def start_request(
    declared: Declared, args: tuple[Any, ...], named: Mapping[str, Any], idempotency_key: str | None
) -> StartRequest:
    """Return the request that starts an agent with its one input, or a durable function with its arguments.

    Raises `InvalidInput` (`bad_input`) naming what does not fit.
    """
    if isinstance(declared, Agent):
        return StartRequest(declared.compile(), _one_input(declared, args, named), idempotency_key)
    definition = durable_definition(declared)
    spec = function_spec(FunctionLane(definition.name, definition.build))
    return StartRequest(spec, input_of(definition, args, named), idempotency_key)


def later(request: StartRequest, delay_seconds: float | None, start_at: datetime | None, **said: Any) -> StartRequest:
    """Return a start that says when it is to begin, and what else is `said` of it.

    Raises `InvalidInput` (`bad_start`) for a time without a zone.
    """
    if start_at is not None and start_at.tzinfo is None:
        raise InvalidInput(
            f"start_at is {start_at.isoformat()}, which names no time zone. Give it one: "
            "datetime(…, tzinfo=ZoneInfo('Europe/Berlin')), or datetime.now(UTC) + timedelta(…).",
            code="bad_start",
        )
    at_ms = None if start_at is None else round(start_at.timestamp() * 1000)
    return replace(request, delay_seconds=delay_seconds, start_at_ms=at_ms, **said)


def input_of(definition: DurableDefinition, args: tuple[Any, ...], named: Mapping[str, Any]) -> Json:
    """Return arguments as `DurableDefinition.arguments` reads them: one as it is, several by name."""
    signature = signature_of(definition.function)
    try:
        bound = signature.bind(*args, **named)
    except TypeError as error:
        raise InvalidInput(f"durable function {definition.name}: {error}.", code="bad_input") from None
    given = dict(bound.arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            given.update(given.pop(parameter.name, {}))
    parameters = list(signature.parameters.values())
    if len(parameters) == 1 and parameters[0].kind is not inspect.Parameter.KEYWORD_ONLY:
        return _json(given.get(parameters[0].name))
    return _json(given or None)


def _one_input(agent: Agent, args: tuple[Any, ...], named: Mapping[str, Any]) -> Json:
    given = [*args, *named.values()]
    if len(given) != 1 or named.keys() - {"input"}:
        what = ", ".join([*(["…"] * len(args)), *(f"{name}=…" for name in named)]) or "nothing"
        raise InvalidInput(f"agent {agent.name!r} takes exactly one input; found {what}.", code="bad_input")
    return given[0]


def _json(value: Any) -> Json:
    return codec.decode(codec.encode(value, "input", MOST_BLOB_BYTES))


__all__ = [
    "Declared",
    "DurableDefinition",
    "durable_definition",
    "durable_functions",
    "input_of",
    "later",
    "sorted_out",
    "start_request",
]
