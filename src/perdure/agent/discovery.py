"""Find out which tools an agent's MCP servers have, once for each execution: what it began with is what it keeps.

The list is the result of a task like any other, so it stands in the log; nothing here speaks to a server.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, cast

from perdure.agent.spec import AgentSpec, ToolEntry
from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.delivery import Delivery, tighten
from perdure.core.events import Event, Kind
from perdure.core.items import ScheduleTask
from perdure.core.rules import TaskRules
from perdure.flow.context import Context, Failed

ATTEMPTS = 5
"""To list the tools of a server."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64


async def with_discovered(ctx: Context, spec: AgentSpec) -> AgentSpec:
    """Return the definition with the tools of its MCP servers in their places.

    Raises `Failed` (`mcp_unavailable`) if a server does not say what it has, `duplicate_tool` if two names are equal.
    """
    servers = [tool for tool in spec.tools if tool.mcp is not None]
    if not servers:
        return spec
    listed = await ctx.gather(*(ctx.task(_listing(spec, server)) for server in servers))
    found = {server.name: _found(spec, server, event) for server, event in zip(servers, listed, strict=True)}
    tools = tuple(one for tool in spec.tools for one in found.get(tool.name, [tool]))
    names = [tool.name for tool in tools]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Failed("duplicate_tool", f"agent {spec.name!r} has more than one tool named {twice[0]!r}.")
    return replace(spec, tools=tools)


def listing_address(server: str) -> str:
    """Return the address of the task that lists the tools of a server."""
    return f"mcp/{server}"


def entries_of(server: ToolEntry, value: Json) -> dict[str, ToolEntry]:
    """Return what the list of a server's tools means, by their own names."""
    part = server.mcp
    assert part is not None
    listed = cast("list[dict[str, Any]]", value if isinstance(value, list) else [])
    chosen = [tool for tool in listed if part.tool_names is None or tool["name"] in part.tool_names]
    return {tool["name"]: _entry(server, tool) for tool in chosen}


def mode_of(annotations: dict[str, Any]) -> Delivery:
    """Return the delivery that suits what a server says of its tool. It may be wrong, or lie: an author's choice wins.

    What is said to be neither read-only nor idempotent may be neither, so it is done at most once.
    """
    if annotations.get("readOnlyHint") is True:
        return Delivery.REPEATABLE
    if annotations.get("idempotentHint") is True:
        return Delivery.AT_LEAST_ONCE
    return Delivery.AT_MOST_ONCE


def _listing(spec: AgentSpec, server: ToolEntry) -> ScheduleTask:
    return ScheduleTask(
        address=listing_address(server.name),
        digest=codec.digest(server.name),
        agent=spec.name,
        tool=server.name,
        queue=server.queue,
        args={},
        delivery=Delivery.REPEATABLE,
        max_attempts=ATTEMPTS,
        timeout_ms=server.timeout_ms,
        rules=TaskRules(jitter=0.2),
    )


def _found(spec: AgentSpec, server: ToolEntry, listed: Event) -> list[ToolEntry]:
    if listed.kind is not Kind.TASK_COMPLETED:
        raise Failed(
            "mcp_unavailable",
            f"agent {spec.name!r}: the tools of MCP server {server.name!r} could not be listed: "
            f"{listed.data.get('error', 'it was stopped')}",
        )
    return list(entries_of(server, listed.data["value"]).values())


def _entry(server: ToolEntry, tool: dict[str, Any]) -> ToolEntry:
    part = server.mcp
    assert part is not None
    mode = server.delivery
    if not part.delivery_given:
        mode = tighten(mode_of(tool.get("annotations") or {}), server.delivery)
    once = mode is Delivery.AT_MOST_ONCE and not part.delivery_given
    return replace(
        server,
        name=_NOT_IN_NAMES.sub("_", f"{server.name}_{tool['name']}")[:_LONGEST],
        description=tool.get("description") or "",
        schema=tool["inputSchema"],
        delivery=mode,
        attempts=1 if once else server.attempts,
        rules=replace(server.rules, key_ttl_ms=0) if once else server.rules,
        mcp=None,
    )
