"""A function that its author gives beside a tool, called with the tool's own arguments: a probe, a simulation.

Checked against the tool at once. Runs where tools run, on a worker.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perdure.agent.context import current_tool
from perdure.agent.schema import Signature, read_signature
from perdure.agent.tool_rules import bad_tool
from perdure.core.codec import Json


@dataclass(frozen=True, slots=True, eq=False)
class Companion:
    """A checked function that goes with one tool."""

    function: Callable[..., Any]
    """As it was given."""
    wanted: frozenset[str]
    """Which of the tool's arguments it takes."""
    context: str | None
    """Its parameter for a `ToolContext`."""

    def body(self, read: Callable[[Any], Any]) -> Callable[..., Any]:
        """Return what a worker runs: called with the tool's arguments, it returns what `read` makes of the answer."""

        async def on_loop(**args: Any) -> Any:
            return read(await self.function(**self._given(args)))

        def in_thread(**args: Any) -> Any:
            return read(self.function(**self._given(args)))

        return on_loop if inspect.iscoroutinefunction(self.function) else in_thread

    def _given(self, args: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in args.items() if name in self.wanted}
        return given if self.context is None else {**given, self.context: current_tool()}


def read_companion(
    tool: str, option: str, function: object, signature: Signature, names: Mapping[str, Any] | None
) -> Companion:
    """Check that a function can be called with the arguments of its tool. Raises `InvalidInput` (`bad_tool`)."""
    if not callable(function) or isinstance(function, type):
        raise bad_tool(tool, f"has {option}={function!r:.80}; expected a function")
    own = read_signature(function, names)
    wanted = frozenset(_properties(own.schema))
    strange = sorted(wanted - _properties(signature.schema).keys() - (wanted - _required(own.schema)))
    if strange:
        raise bad_tool(
            tool,
            f"has a {option}= function that wants {strange[0]!r}, which is no parameter of the tool: it is called with "
            "the tool's own arguments, those that it names, and a ToolContext if it asks for one",
        )
    return Companion(function, wanted & _properties(signature.schema).keys(), own.context)


def _properties(schema: dict[str, Json]) -> dict[str, Json]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _required(schema: dict[str, Json]) -> frozenset[str]:
    found = schema.get("required")
    return frozenset(str(name) for name in found) if isinstance(found, list) else frozenset()
