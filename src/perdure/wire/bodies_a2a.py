"""What requests and replies about agents that are reached by A2A hold. Unknown fields are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from perdure.core.a2a import PublishedView, PushView
from perdure.core.codec import Json

_STRICT: dict[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class PublishBody:
    """`PUT /v1/a2a/agents`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    spec: dict[str, Json]
    """The agent, compiled to JSON."""
    description: str = ""
    """What its card says of it."""
    by: str = ""


@dataclass(frozen=True, slots=True)
class PublishedList:
    """`GET /v1/a2a/agents`."""

    items: tuple[PublishedView, ...]


@dataclass(frozen=True, slots=True)
class PushList:
    """`GET /v1/a2a/pushes`."""

    items: tuple[PushView, ...]
