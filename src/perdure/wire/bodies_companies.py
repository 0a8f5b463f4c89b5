"""What requests and replies about companies hold beside the shapes of `core.companies`. Unknown fields are refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from perdure.core.companies import CompanyView

_STRICT: dict[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class KeyBody:
    """`POST /v1/companies/{company}/keys`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    name: str
    key: str = field(repr=False)
    """`pdk_` and 256 bits of chance in 43 characters, which no route ever returns."""


@dataclass(frozen=True, slots=True)
class StopCompanyBody:
    """A company that is to do nothing in any room."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    company: str = ""
    """Empty: one's own."""
    reason: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class StartCompanyBody:
    """A company that may go on."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _STRICT
    company: str = ""
    """Empty: one's own."""
    by: str = ""


@dataclass(frozen=True, slots=True)
class CompanyList:
    """Companies with their keys."""

    items: tuple[CompanyView, ...]
