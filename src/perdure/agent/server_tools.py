"""Tools that the server itself calls, without a worker: what a definition says of an HTTP endpoint or an MCP server.

Plain data. What is secret stands here by reference, `${secret:NAME}` or `${env:NAME}`, and is looked up where the
request is made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from perdure.core.codec import Json

MAX_RESPONSE_BYTES = 1024 * 1024
TIMEOUT_SECONDS = 30.0
"""For one attempt, if nothing else is said: no call of a server's may hang for ever."""

REFERENCE = re.compile(r"\$\{(env|secret):([A-Za-z_][A-Za-z0-9_]*)\}")
"""`env`: the value of a variable of the server's environment that its operator allows to be used. `secret`: one of the
company's secrets."""
NEARLY = re.compile(r"\$\{(?:env|secret):[^}]*\}?")
"""What is meant as a reference, well written or not."""
PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""Where an argument goes into an address."""

_STRICT: dict[str, str] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class HttpPart:
    """One endpoint."""

    __pydantic_config__: ClassVar = _STRICT

    method: str
    url: str
    """Arguments named in it as `{name}` go there; the others into the query or the body, as the method has it."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    max_bytes: int = MAX_RESPONSE_BYTES
    """Of a response; what is longer is cut, and says so."""
    simulated: Json = None
    """What stands in for its answer in a fork that may not act; None is nothing."""


@dataclass(frozen=True, slots=True)
class McpPart:
    """One MCP server, reached by streamable HTTP."""

    __pydantic_config__: ClassVar = _STRICT

    url: str
    headers: dict[str, str] = field(default_factory=dict[str, str])
    tool_names: tuple[str, ...] | None = None
    """Which of its tools, by its own names; None is all."""
    delivery_given: bool = False
    """Whether the author chose a delivery for all of them; else each is as its annotations say."""
