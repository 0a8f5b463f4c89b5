"""Read what a model wrote as a tool call: a known tool and arguments that fit, or words that say what is wrong."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from perdure.agent.full_check import full_check
from perdure.agent.large import standing_in
from perdure.agent.patterns import one_draft
from perdure.agent.plain_schema import Fits, plain_check
from perdure.agent.spec import AgentSpec, ToolEntry
from perdure.core import codec
from perdure.core.codec import Json
from perdure.errors import UserError
from perdure.models.port import ToolCall

_PLAIN = re.compile(r"[A-Za-z0-9_.#-]{1,80}")


@dataclass(frozen=True, slots=True)
class Call:
    """A call that can be made."""

    address: str
    tool: ToolEntry
    args: dict[str, Json]


@dataclass(frozen=True, slots=True)
class CallProblem:
    """A call that cannot be made, in words for the model."""

    text: str


def names_of(calls: Sequence[ToolCall]) -> list[str]:
    """Return a name for each call of a turn, from its id: some models repeat ids, or send none."""
    if len(calls) == 1 and calls[0].id:
        return [_readable(calls[0].id)]
    names: list[str] = []
    seen: Counter[str] = Counter()
    for call in calls:
        seen[call.id] += 1
        name = call.id if call.id and seen[call.id] == 1 else f"{call.id}#{seen[call.id]}"
        while name in names:  # an id that looks like a name of ours
            name += "#"
        names.append(name)
    return [_readable(name) for name in names]


def read_call(spec: AgentSpec, address: str, call: ToolCall) -> Call | CallProblem:
    """Check a call against the agent's definition. Nothing is scheduled, and nobody is asked, for a bad one."""
    tool = spec.tool(call.name)
    if tool is None:
        return CallProblem(_unknown(spec, call.name))
    try:
        args: Json = codec.decode(call.arguments or "{}")
    except ValueError:
        return CallProblem(f"The arguments of {call.name} are not JSON: {call.arguments[:200]!r}. Call it again.")
    if not isinstance(args, dict):
        return CallProblem(f"The arguments of {call.name} should be a JSON object, not {call.arguments[:200]}.")
    if (refusal := unstorable(args, "it")) is not None:
        return CallProblem(f"The arguments of {call.name} cannot be stored: {refusal}")
    if (problem := call_problem(tool.schema, args)) is not None:
        return CallProblem(f"The arguments of {call.name} do not fit its schema: {problem}. Call it again.")
    return Call(address, tool, args)


def unstorable(value: Json, what: str) -> str | None:
    """Say why a value that a model wrote cannot be stored: too large, or nested too deep. None if it can."""
    try:
        codec.encode(value, what)
    except UserError as refusal:
        return refusal.message
    return None


def call_problem(schema: dict[str, Json], args: dict[str, Json]) -> str | None:
    """Say where arguments depart from a tool's schema; None if they do not, or stand for large values there."""
    problem = problem_of(schema, args)
    if problem is None or (wider := standing_in(schema, args)) is None:
        return problem
    return problem_of(wider, args)


def problem_of(schema: dict[str, Json], value: Json) -> str | None:
    """Say where a value departs from a JSON schema; None if it does not."""
    try:
        fits, problem = _checkers(codec.encode(schema, "schema"))
        return None if fits is not None and fits(value) else problem(value)
    except Exception as broken:  # noqa: BLE001 - the schema is the author's: it may raise whatever its library does
        return f"the schema itself cannot be used ({type(broken).__name__}: {broken})"


@lru_cache(maxsize=1_024)
def _checkers(schema: str) -> tuple[Fits | None, Callable[[Json], str | None]]:
    """Return the checkers of a schema, given as text; making them costs more than using them many times."""
    decoded = codec.decode(schema)
    return plain_check(one_draft(decoded)), full_check(decoded)


def _unknown(spec: AgentSpec, name: str) -> str:
    names = [tool.name for tool in spec.tools]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"There is no tool {name!r}.{hint} The tools are: {', '.join(names) or 'none'}."


def _readable(call_id: str) -> str:
    """Return an id as part of an address: as it is if it is plain, else its fingerprint."""
    return call_id if _PLAIN.fullmatch(call_id) else codec.digest(call_id)
