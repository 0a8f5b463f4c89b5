"""Find out what became of a call: the function that an author gives for it, and what that function may answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perdure.agent.context import current_tool
from perdure.agent.schema import Signature, read_signature
from perdure.agent.tool_rules import bad_tool
from perdure.core.codec import Json
from perdure.errors import PermanentError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a probe found out about a call. Make one with `happened`, `did_not_happen` or `unknown`."""

    known: bool | None
    """Whether it happened; None if that cannot be told."""
    value: Any = None
    """What the call would have returned."""

    @classmethod
    def happened(cls, value: Any = None) -> Outcome:
        """It was done, and this is what it would have returned: its receipt. The call counts as done."""
        return cls(True, value)

    @classmethod
    def did_not_happen(cls) -> Outcome:
        """It was not done and will not be: nothing of it is still on its way. The call begins once more."""
        return cls(False)

    @classmethod
    def unknown(cls) -> Outcome:
        """It cannot be told now. You are asked again a few times; then a person, or the declared policy, rules."""
        return cls(None)


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """A checked probe of one tool."""

    function: Callable[..., Any]
    """As it was given."""
    wanted: frozenset[str]
    """Which of the tool's arguments it takes."""
    context: str | None
    """Its parameter for a `ToolContext`."""

    @property
    def body(self) -> Callable[..., Any]:
        """What a worker runs: called with the tool's arguments, it returns the answer as JSON-like data."""
        return self._on_loop if inspect.iscoroutinefunction(self.function) else self._in_thread

    async def _on_loop(self, **args: Any) -> dict[str, Json]:
        return _answer(await self.function(**self._given(args)))

    def _in_thread(self, **args: Any) -> dict[str, Json]:
        return _answer(self.function(**self._given(args)))

    def _given(self, args: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in args.items() if name in self.wanted}
        return given if self.context is None else {**given, self.context: current_tool()}


def read_probe(tool: str, function: object, signature: Signature, names: Mapping[str, Any] | None) -> Probe:
    """Check that a probe can be called with the arguments of its tool. Raises `InvalidInput` (`bad_tool`)."""
    if not callable(function) or isinstance(function, type):
        raise bad_tool(tool, f"has probe={function!r:.80}; expected a function")
    own = read_signature(function, names)
    wanted = frozenset(_properties(own.schema))
    strange = sorted(wanted - _properties(signature.schema).keys() - (wanted - _required(own.schema)))
    if strange:
        raise bad_tool(
            tool,
            f"has a probe that wants {strange[0]!r}, which is no parameter of the tool: a probe is called with the "
            "tool's own arguments, those that it names, and a ToolContext if it asks for one",
        )
    return Probe(function, wanted & _properties(signature.schema).keys(), own.context)


def _properties(schema: dict[str, Json]) -> dict[str, Json]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _required(schema: dict[str, Json]) -> frozenset[str]:
    found = schema.get("required")
    return frozenset(str(name) for name in found) if isinstance(found, list) else frozenset()


def _answer(outcome: object) -> dict[str, Json]:
    if not isinstance(outcome, Outcome):
        raise PermanentError(
            f"the probe returned {outcome!r:.80}; expected Outcome.happened(...), Outcome.did_not_happen() or "
            "Outcome.unknown()",
            code="bad_probe",
        )
    return {"happened": outcome.known, "value": outcome.value}
