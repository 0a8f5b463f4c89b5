"""The definition of an agent that lives in a room, as JSON, and what one wake of it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from perdure.agent.on_wake import BY_FUNCTION, ON_WAKE
from perdure.agent.spec import AgentSpec, spec_from_json
from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.delivery import Delivery
from perdure.core.rooms import WAKE, Actor, OnCrash
from perdure.errors import InvalidInput
from perdure.rooms.actions import OWN_NAMES

_FUNCTION = (ON_WAKE, Delivery.REPEATABLE)
ACTIVE_MS = 300_000
"""How long a wake may be active where its agent does not say."""


@dataclass(frozen=True, slots=True)
class WakeSpec:
    """What every wake of one agent begins with."""

    agent: AgentSpec
    on_crash: OnCrash

    @property
    def active_ms(self) -> int:
        return self.agent.limits.active_ms or ACTIVE_MS


@dataclass(frozen=True, slots=True)
class Wake:
    """One wake, as its execution's input has it."""

    execution: str
    company: str
    room: str
    agent: str
    cause: str
    """Id of the message or task."""
    asked_by: str
    hops: int

    @property
    def actor(self) -> Actor:
        """Return in whose name it acts."""
        return Actor(self.company, self.agent, "agent", self.execution, self.cause, self.asked_by, self.hops)


def is_wake(spec: Json) -> bool:
    """Say whether a definition is that of an agent in a room."""
    return isinstance(spec, dict) and spec.get("kind") == WAKE


def wake_definition(agent: Json, on_crash: str) -> tuple[str, str, str]:
    """Return name, fingerprint and text of the definition that wakes of an agent run from.

    Raises `InvalidInput`: `bad_agent`; `room_tools` for an agent with an output type, with tools that servers call, or
    with one that is named like what every agent in a room may declare.
    """
    if on_crash not in ("resume", "abandon"):
        raise InvalidInput(f"on_crash should be 'resume' or 'abandon'; found {on_crash[:40]!r}.", code="bad_agent")
    spec = spec_from_json(agent)
    if (why := _misfit(spec)) is not None:
        raise InvalidInput(f"agent {spec.name!r} has {why}", code="room_tools")
    whole: dict[str, Json] = {"kind": WAKE, "on_crash": on_crash, "agent": agent}
    return spec.name, codec.digest(whole), codec.encode_json(whole)


def _misfit(spec: AgentSpec) -> str | None:
    """Say what keeps an agent from living in a room."""
    if spec.output_schema is not None:
        return "an output type: in a room its answer is the text of its reply. Register it without."
    if (tool := next((one for one in spec.tools if one.by_server), None)) is not None:
        return (
            f"tool {tool.name!r}, which servers call: in a room an agent's own tools are run by workers of its company "
            "alone. Register it without, or with a function that a worker runs."
        )
    if spec.model == BY_FUNCTION and [(one.name, one.delivery) for one in spec.tools] != [_FUNCTION]:
        return f"the model {BY_FUNCTION!r}, which goes with one `repeatable` tool {ON_WAKE!r}: declare it by @on_wake."
    if (tool := next((one for one in spec.tools if one.name in OWN_NAMES), None)) is not None:
        return f"tool {tool.name!r}: every agent in a room may declare that. Give the tool another name."
    return None


def wake_spec(definition: Mapping[str, Json]) -> WakeSpec:
    """Return what `wake_definition` wrote."""
    on_crash: OnCrash = "abandon" if definition["on_crash"] == "abandon" else "resume"
    return WakeSpec(spec_from_json(definition["agent"]), on_crash)


def wake_of(execution: str, company: str, given: Json) -> Wake:
    """Return the wake that an execution's input describes."""
    found = cast("dict[str, str]", given)
    names = ("room", "agent", "cause", "asked_by")
    return Wake(execution, company, *(found[name] for name in names), hops=int(found["hops"]))
