"""Perdure: a durable runtime for AI agents. A run lives on a server, in a store, not in a process.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.agent.agent import Agent, Limits
    from perdure.agent.approval import Approval
    from perdure.agent.context import Cancelled, ToolContext
    from perdure.agent.probe import Outcome
    from perdure.agent.tool import tool
    from perdure.client.handle import AgentHandle, AgentStream
    from perdure.client.results import AgentResult, AgentStatus, Status, ToolUse
    from perdure.client.rooms import Room
    from perdure.client.stream_events import AgentEvent
    from perdure.core.delivery import Delivery
    from perdure.errors import (
        Conflict,
        ExecutionFailed,
        InternalError,
        InvalidInput,
        LeaseLost,
        LimitExceeded,
        NotDone,
        NotFound,
        PerdureError,
        PermanentError,
        Retryable,
        RetryLater,
        StoreFailed,
        StoreFull,
        StoreInUse,
        Terminal,
        Unauthorized,
        Unreachable,
        UserError,
    )
    from perdure.flow.durable import durable
    from perdure.runtime import AgentRuntime
    from perdure.toolbox.http_tool import http_tool
    from perdure.toolbox.mcp_tool import mcp_tool
    from perdure.version import VERSION as __version__

_WHERE = {
    "Agent": "agent.agent",
    "AgentEvent": "client.stream_events",
    "AgentHandle": "client.handle",
    "AgentResult": "client.results",
    "AgentRuntime": "runtime",
    "AgentStatus": "client.results",
    "AgentStream": "client.handle",
    "Approval": "agent.approval",
    "Cancelled": "agent.context",
    "Conflict": "errors",
    "Delivery": "core.delivery",
    "ExecutionFailed": "errors",
    "InternalError": "errors",
    "InvalidInput": "errors",
    "LeaseLost": "errors",
    "LimitExceeded": "errors",
    "Limits": "agent.agent",
    "NotDone": "errors",
    "NotFound": "errors",
    "Outcome": "agent.probe",
    "PerdureError": "errors",
    "PermanentError": "errors",
    "RetryLater": "errors",
    "Retryable": "errors",
    "Room": "client.rooms",
    "Status": "client.results",
    "StoreFailed": "errors",
    "StoreFull": "errors",
    "StoreInUse": "errors",
    "Terminal": "errors",
    "ToolContext": "agent.context",
    "ToolUse": "client.results",
    "Unauthorized": "errors",
    "Unreachable": "errors",
    "UserError": "errors",
    "durable": "flow.durable",
    "http_tool": "toolbox.http_tool",
    "mcp_tool": "toolbox.mcp_tool",
    "tool": "agent.tool",
}

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentHandle",
    "AgentResult",
    "AgentRuntime",
    "AgentStatus",
    "AgentStream",
    "Approval",
    "Cancelled",
    "Conflict",
    "Delivery",
    "ExecutionFailed",
    "InternalError",
    "InvalidInput",
    "LeaseLost",
    "LimitExceeded",
    "Limits",
    "NotDone",
    "NotFound",
    "Outcome",
    "PerdureError",
    "PermanentError",
    "RetryLater",
    "Retryable",
    "Room",
    "Status",
    "StoreFailed",
    "StoreFull",
    "StoreInUse",
    "Terminal",
    "ToolContext",
    "ToolUse",
    "Unauthorized",
    "Unreachable",
    "UserError",
    "__version__",
    "durable",
    "http_tool",
    "mcp_tool",
    "tool",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("perdure.version").VERSION
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    value = getattr(import_module(f"perdure.{where}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
