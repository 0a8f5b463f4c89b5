"""An agent compiled to JSON: what the server runs it from. Never changes once an execution began with it.

Plain data, decoded strictly: unknown fields are refused, so a definition from a newer version fails loudly.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar, cast

from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.delivery import Delivery
from perdure.core.work import DEFAULT_QUEUE
from perdure.errors import InvalidInput

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool as the server knows it."""

    name: str
    description: str
    schema: dict[str, Json]
    delivery: str = Delivery.AT_LEAST_ONCE
    approval_required: bool = False
    timeout_ms: int = 0
    attempts: int = 3
    pause_ms: int = 2_000
    queue: str = DEFAULT_QUEUE


@dataclass(frozen=True, slots=True)
class LimitsEntry:
    """Bounds of one execution; None is none. Cost counts only what is known."""

    turns: int = 25
    cost_usd: float | None = None
    tokens: int | None = None
    requests: int | None = None
    active_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """A whole definition."""

    name: str
    model: str
    instructions: str
    tools: tuple[ToolEntry, ...] = ()
    limits: LimitsEntry = LimitsEntry()
    base_url: str | None = None
    settings: dict[str, Json] = field(default_factory=dict[str, Json])
    output_schema: dict[str, Json] | None = None

    def tool(self, name: str) -> ToolEntry | None:
        """Return the tool of that name."""
        return next((tool for tool in self.tools if tool.name == name), None)


def spec_to_json(spec: AgentSpec) -> dict[str, Json]:
    """Return the definition as JSON."""
    return cast("dict[str, Json]", codec.to_json(asdict(spec), "agent"))


def spec_from_json(value: Json) -> AgentSpec:
    """Return the definition that `spec_to_json` wrote. Raises `InvalidInput` (`bad_agent`) naming the field."""
    data = _object(value, "agent")
    tools = tuple(_build(ToolEntry, _object(tool, "tool"), "tool") for tool in _list(data.get("tools", [])))
    names = [tool.name for tool in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput(
            f"agent {data.get('name')!r} has more than one tool named {twice[0]!r}. Give one of them another name: "
            "`@tool(name=...)`.",
            code="duplicate_tool",
            tool=twice[0],
        )
    limits = _build(LimitsEntry, _object(data.get("limits", {}), "limits"), "limits")
    return _build(AgentSpec, {**data, "tools": tools, "limits": limits}, "agent")


def spec_digest(spec: dict[str, Json]) -> str:
    """Return the fingerprint that tells definitions apart."""
    return codec.digest(spec)


def _build(kind: type[T], data: dict[str, Any], what: str) -> T:
    known = {one.name for one in fields(cast("Any", kind))}
    unknown = sorted(data.keys() - known)
    if unknown:
        raise InvalidInput(
            f"{what} {data.get('name', '')!r} has a field {unknown[0]!r} that this version does not know. "
            "Is the client newer than the server? Upgrade the server first.",
            code="bad_agent",
        )
    try:
        return kind(**data)
    except TypeError as error:
        raise InvalidInput(f"{what} {data.get('name', '')!r} is incomplete: {error}.", code="bad_agent") from None


def _object(value: Json, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{what} should be a JSON object, found {type(value).__name__}.", code="bad_agent")
    return value


def _list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise InvalidInput(f"tools should be a JSON list, found {type(value).__name__}.", code="bad_agent")
    return value
