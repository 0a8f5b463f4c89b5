"""What requests and replies about hooks of rooms hold beside the shapes of `core.hooks`. Unknown fields are refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from perdure.core.hooks import HookView

_STRICT: dict[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class HookBody:
    """`POST /v1/rooms/{room}/hooks`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    name: str
    to: str
    """`company/agent`, or a company."""
    secret: str = field(repr=False)
    """`pdh_` and 256 bits of chance in 43 characters, which no route ever returns."""


@dataclass(frozen=True, slots=True)
class HookList:
    """A company's hooks."""

    items: tuple[HookView, ...]
