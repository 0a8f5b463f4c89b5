"""What may be said about a tool that the server calls: the options of `@tool` that are not about a function."""

from __future__ import annotations

from typing import TypedDict, cast

from perdure.agent.approval import Approval
from perdure.agent.doubt import IfUnknown
from perdure.agent.server_tools import TIMEOUT_SECONDS
from perdure.agent.spec import ToolEntry
from perdure.agent.tool import DeliveryName, Options, check_options
from perdure.agent.tool_rules import bad_tool
from perdure.core.codec import Json
from perdure.core.delivery import Delivery
from perdure.core.work import SERVER_QUEUE

FOR_WORKERS = ("isolated", "memory_mb", "no_retry", "probe", "simulate", "intent", "queue", "redact")
"""Options of tools that are about a body of Python."""


class ServerOptions(TypedDict, total=False):
    """As those of `@tool` with the same names."""

    approval_required: bool
    approval: Approval
    approval_timeout_seconds: float | None
    timeout_seconds: float
    """For one attempt: 30."""
    retries: int
    delivery: DeliveryName | Delivery
    settle_seconds: float | None
    if_unknown: IfUnknown
    ruling_deadline_seconds: float | None
    key_ttl_seconds: float | None
    retry_pause_seconds: float
    retry_factor: float
    retry_ceiling_seconds: float
    retry_jitter: float
    deadline_seconds: float | None


def with_delivery(options: ServerOptions, reading: bool) -> ServerOptions:
    """Return the options with the delivery that suits a call that only reads, or acts, if none is given."""
    return {"delivery": Delivery.REPEATABLE if reading else Delivery.AT_LEAST_ONCE, **options}


def server_entry(name: str, description: str, schema: dict[str, Json], options: ServerOptions) -> ToolEntry:
    """Return the part of a definition that all tools of the server's share. Raises `InvalidInput` (`bad_tool`)."""
    if wrong := [option for option in FOR_WORKERS if option in options]:
        raise bad_tool(name, f"has the option {wrong[0]}, which is for functions: the server calls this one itself")
    given: Options = cast("Options", {"timeout_seconds": TIMEOUT_SECONDS, **options})
    if given.get("timeout_seconds") is None:
        raise bad_tool(name, "has timeout_seconds=None: a call that the server makes needs an end")
    checked = check_options(name, given)
    if checked.delivery is Delivery.TRANSACTIONAL:
        raise bad_tool(name, "is transactional, which is for your own database; choose another delivery")
    return ToolEntry(
        name=name,
        description=description,
        schema=schema,
        delivery=checked.delivery,
        approval_required=checked.approval_required,
        approval=checked.approval,
        timeout_ms=checked.timeout_ms,
        attempts=checked.attempts,
        queue=SERVER_QUEUE,
        rules=checked.rules,
    )
