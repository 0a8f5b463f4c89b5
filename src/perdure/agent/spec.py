"""An agent compiled to JSON: what the server runs it from. Never changes once an execution began with it.

Plain data, decoded strictly: unknown fields are refused, so a definition from a newer version fails loudly.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

from perdure.agent.server_tools import HttpPart, McpPart
from perdure.core import codec
from perdure.core.approval import DEFAULT_APPROVAL, ApprovalRules, approval_to_json
from perdure.core.codec import Json
from perdure.core.delivery import Delivery, tighten
from perdure.core.rules import DEFAULT_RULES, TaskRules, rules_to_json
from perdure.core.work import DEFAULT_QUEUE, SERVER_QUEUE
from perdure.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_STRICT: dict[str, str] = {"extra": "forbid"}
"""For pydantic, which reads these classes: a field that is not known is an error."""


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool as the server knows it."""

    __pydantic_config__: ClassVar = _STRICT

    name: str
    description: str
    schema: dict[str, Json]
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    approval_required: bool = False
    approval: ApprovalRules = DEFAULT_APPROVAL
    timeout_ms: int = 0
    attempts: int = 3
    pause_ms: int | None = None
    """How definitions of the first release say what `rules` says since: it becomes part of them."""
    queue: str = DEFAULT_QUEUE
    rules: TaskRules = DEFAULT_RULES
    http: HttpPart | None = None
    """Set for a tool that the server calls; its queue is `SERVER_QUEUE`."""
    mcp: McpPart | None = None
    """Set for an MCP server: this entry stands for its tools, which are found out when an execution begins."""

    @property
    def by_server(self) -> bool:
        """Whether servers call it, and no worker."""
        return self.http is not None or self.mcp is not None

    def __post_init__(self) -> None:
        if self.pause_ms is not None:
            object.__setattr__(self, "rules", replace(self.rules, pause_ms=self.pause_ms))


@dataclass(frozen=True, slots=True)
class ServerTool:
    """Tools that the server calls, as an agent's list has them: made by `http_tool` and `mcp_tool`."""

    entry: ToolEntry


@dataclass(frozen=True, slots=True)
class LimitsEntry:
    """Bounds of one execution; None is none. Cost counts only what is known."""

    __pydantic_config__: ClassVar = _STRICT

    turns: int = 25
    cost_usd: float | None = None
    tokens: int | None = None
    requests: int | None = None
    active_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """A whole definition."""

    __pydantic_config__: ClassVar = _STRICT

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


def tightened(tool: ToolEntry, floor: Delivery) -> ToolEntry:
    """Return the tool under a policy that allows nothing looser than `floor`; its key window goes with its mode."""
    delivery = tighten(tool.delivery, floor)
    if delivery == tool.delivery:
        return tool
    return replace(tool, delivery=delivery, rules=replace(tool.rules, key_ttl_ms=0))


def spec_to_json(spec: AgentSpec) -> dict[str, Json]:
    """Return the definition as JSON.

    What came after the first release is in it only where it is used. So whoever uses none of it is understood by an
    older server, and has the same fingerprint in the next version as in this one: durable functions are held to it.
    """
    found = asdict(spec)
    found["tools"] = [_as_used(tool) for tool in spec.tools]
    return cast("dict[str, Json]", codec.to_json(found, "agent"))


def _as_used(tool: ToolEntry) -> dict[str, Any]:
    found = {**asdict(tool), "rules": rules_to_json(tool.rules), "approval": approval_to_json(tool.approval)}
    return {name: value for name, value in found.items() if name not in _LATER or value}


_LATER = frozenset({"pause_ms", "rules", "approval", "http", "mcp"})


def spec_from_json(value: Json) -> AgentSpec:
    """Return the definition that `spec_to_json` wrote.

    Raises `InvalidInput`: `bad_agent` naming the field, what was expected and what was found; `duplicate_tool`.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - `import perdure` need not pay for it

    try:
        spec = _reader().validate_json(codec.encode_json(value, "agent"), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole of it"
        raise InvalidInput(
            f"the agent's definition cannot be used: {where}: {first['msg']}, found {first['input']!r:.80}. "
            "Is the client newer than the server? Upgrade the server first.",
            code="bad_agent",
        ) from None
    for tool in spec.tools:
        if (tool.queue == SERVER_QUEUE) != tool.by_server:
            raise InvalidInput(
                f"tool {tool.name!r} of agent {spec.name!r}: queue {SERVER_QUEUE!r} is for tools that a server calls, "
                "and for all of those.",
                code="bad_agent",
            )
    names = [tool.name for tool in spec.tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput(
            f"agent {spec.name!r} has more than one tool named {twice[0]!r}. Give one of them another name: "
            "`@tool(name=...)`.",
            code="duplicate_tool",
            tool=twice[0],
        )
    return spec


@cache
def _reader() -> TypeAdapter[AgentSpec]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - as above

    return TypeAdapter(AgentSpec)


def spec_digest(spec: dict[str, Json]) -> str:
    """Return the fingerprint that tells definitions apart."""
    return codec.digest(spec)
