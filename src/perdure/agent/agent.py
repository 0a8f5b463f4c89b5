"""Declare an agent. A value, nothing more: no connection, no registry, no model is touched until it is run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from perdure.agent.spec import AgentSpec, LimitsEntry, ServerTool, ToolEntry, spec_from_json, spec_to_json, tightened
from perdure.agent.tool import ToolDefinition, definition_of
from perdure.core.codec import Json
from perdure.core.delivery import Delivery, floor_of
from perdure.core.work import Lane
from perdure.errors import InvalidInput

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_MODEL = re.compile(r"[^\s/:]+[/:]\S*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one execution; None is none. Passing one ends it as failed, with `limit_exceeded`."""

    cost_usd: float | None = None
    """Counts replies whose price is known."""
    tokens: int | None = None
    """Input and output together."""
    requests: int | None = None
    """Requests to the model, failed ones included."""
    active: timedelta | None = None
    """Time in which a server held it; waiting costs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A named definition: model, instructions, tools, limits.

    An execution keeps the definition it began with; changing the agent changes only executions that start later.
    Raises `InvalidInput` at once: `bad_agent`, `duplicate_tool`, `bad_schema`.
    """

    name: str
    """1 to 128 letters, digits, `_`, `.` and `-`. Tools are addressed to it, so workers know it by this name."""
    model: str
    """`provider/model` or `provider:model`, for example `openai/gpt-5.5`; `scripted/NAME` for tests."""
    instructions: str | Callable[[], str] = ""
    """What the model is told; a function is called when an execution starts, and its text is kept with it."""
    tools: Sequence[Callable[..., Any] | ToolDefinition | ServerTool] = ()
    """Functions that workers run, and what `http_tool` and `mcp_tool` return, which the server calls."""
    max_turns: int = 25
    """Model requests with their tool calls; one more ends the execution as failed."""
    limits: Limits = field(default_factory=Limits)
    delivery_floor: Literal["at_least_once", "at_most_once"] = "at_least_once"
    """A policy for all its tools, only ever stricter than what they say: `at_most_once` keeps what would be tried again
    after a crash from being tried again by itself. `repeatable` and `transactional` tools stay as they are."""
    base_url: str | None = None
    """Where the model answers, instead of its provider's address. Gets one request per step, no second tries."""
    temperature: float | None = None
    max_tokens: int | None = None
    """Of one reply."""
    output_type: type[Any] | None = None
    """A pydantic model, dataclass or other type that the final answer must parse into."""
    dependencies: Any = None
    """Handed to tools as `ToolContext.dependencies`; never stored, never sent to a server."""
    stream: bool | None = None
    """Whether its model is asked to tell its replies in pieces. None: a provider at its own address is, and another
    address, which may not know how, is not."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidInput(
                f"agent name {self.name!r} should be 1 to 128 letters, digits, `_`, `.` and `-`.", code="bad_agent"
            )
        if not _MODEL.fullmatch(self.model):
            raise InvalidInput(
                f"agent {self.name!r}: model {self.model!r} should look like `openai/gpt-5.5` or `openai:gpt-5.5`.",
                code="unknown_model",
            )
        if self.max_turns < 1:
            raise InvalidInput(f"agent {self.name!r}: max_turns should be 1 or more.", code="bad_agent")
        self._floor()
        spec_from_json(spec_to_json(self._spec("")))  # refuses what a server would refuse

    def definitions(self) -> Mapping[str, ToolDefinition]:
        """Return the tools that workers run by name."""
        return {one.name: one for one in map(definition_of, self._for_workers())}

    def lanes(self) -> dict[Lane, ToolDefinition]:
        """Return its tools, their probes and simulations, by the address that tasks for them carry."""
        tools = self.definitions().values()
        served = [one for tool in tools for one in (tool, tool.probing(), tool.simulating()) if one is not None]
        return {Lane(self.name, one.name, one.options.queue): one for one in served}

    def _for_workers(self) -> list[Callable[..., Any] | ToolDefinition]:
        return [tool for tool in self.tools if not isinstance(tool, ServerTool)]

    def compile(self) -> dict[str, Json]:
        """Return the definition as JSON: what a server runs it from."""
        text = self.instructions() if callable(self.instructions) else self.instructions
        return spec_to_json(self._spec(text))

    def _spec(self, instructions: str) -> AgentSpec:
        settings: dict[str, Json] = {}
        if self.temperature is not None:
            settings["temperature"] = self.temperature
        if self.max_tokens is not None:
            settings["max_tokens"] = self.max_tokens
        if self.stream is not None:
            settings["stream"] = self.stream
        return AgentSpec(
            name=self.name,
            model=self.model,
            instructions=instructions,
            tools=tuple(tightened(_entry(one), self._floor()) for one in self.tools),
            limits=self._limits(),
            base_url=self.base_url,
            settings=settings,
            output_schema=None if self.output_type is None else _schema_of(self.output_type),
        )

    def _floor(self) -> Delivery:
        try:
            return floor_of(self.delivery_floor)
        except ValueError:
            raise InvalidInput(
                f"agent {self.name!r}: delivery_floor={self.delivery_floor!r} should be 'at_least_once' or "
                "'at_most_once'.",
                code="bad_agent",
            ) from None

    def _limits(self) -> LimitsEntry:
        active = self.limits.active
        return LimitsEntry(
            turns=self.max_turns,
            cost_usd=self.limits.cost_usd,
            tokens=self.limits.tokens,
            requests=self.limits.requests,
            active_ms=None if active is None else round(active.total_seconds() * 1000),
        )


def _entry(tool: Callable[..., Any] | ToolDefinition | ServerTool) -> ToolEntry:
    if isinstance(tool, ServerTool):
        return tool.entry
    definition = definition_of(tool)
    facts: dict[str, Any] = {**definition.spec()}
    facts |= {"rules": definition.options.rules, "approval": definition.options.approval}
    return ToolEntry(**facts)


def _schema_of(kind: type[Any]) -> dict[str, Json]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - `import perdure` need not pay for it

    return TypeAdapter(kind).json_schema()
