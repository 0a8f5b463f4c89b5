"""Read which agents a company has, and what each has been: the definitions that its executions began with.

A definition is stored by the first start that has it, so an agent that nothing was begun with is none. Reads rows only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from perdure.core.codec import Json
from perdure.core.functions import is_function
from perdure.core.rooms import WAKE
from perdure.engine.stored import damaged, value_of
from perdure.errors import InvalidInput
from perdure.store.protocol import Reads, Row

MOST_COUNTED = 100
"""Definitions of an agent that are counted."""
AgentKind = Literal["agent", "function", "room"]
"""`function`: durable, run by workers. `room`: an agent as it is run when it was woken in a room."""
_NEWEST = (2**62, "")


@dataclass(frozen=True, slots=True)
class AgentView:
    """An agent or a durable function."""

    name: str
    kind: AgentKind
    model: str
    """Empty for a function."""
    tools: tuple[str, ...]
    versions: int
    """How many definitions it has had, counted up to `MOST_COUNTED`."""
    digest: str
    """Of the newest."""
    since_ms: int
    """When the newest first began an execution."""


@dataclass(frozen=True, slots=True)
class AgentPage:
    """A page of them, by name."""

    items: tuple[AgentView, ...]
    cursor: str | None
    """Give it back to get the next page; None on the last."""


@dataclass(frozen=True, slots=True)
class VersionView:
    """What an agent was."""

    digest: str
    created_ms: int
    """When it first began an execution."""
    spec: dict[str, Json]
    """The definition itself."""


@dataclass(frozen=True, slots=True)
class VersionPage:
    """A page of them, the newest first."""

    items: tuple[VersionView, ...]
    cursor: str | None
    """Give it back to get the next page; None on the last."""


def agents_page(reads: Reads, company: str, *, cursor: str | None, limit: int) -> AgentPage:
    """Return a page of a company's agents, by name."""
    rows = reads.rows("agents_after", company=company, after=cursor or "", most=MOST_COUNTED, limit=limit + 1)
    items = tuple(map(_agent, rows[:limit]))
    return AgentPage(items, items[-1].name if len(rows) > limit else None)


def versions_page(reads: Reads, company: str, agent: str, *, cursor: str | None, limit: int) -> VersionPage:
    """Return a page of what an agent has been, the newest first; none of one that there is not. Raises `InvalidInput`
    for a cursor that no page gave."""
    before_ms, before_digest = _NEWEST if cursor is None else _place(cursor)
    scope = {"company": company, "agent": agent, "limit": limit + 1}
    rows = reads.rows("definitions_of", before_ms=before_ms, before_digest=before_digest, **scope)
    items = tuple(VersionView(row["digest"], row["created_ms"], _spec(row)) for row in rows[:limit])
    last = items[-1] if items else None
    return VersionPage(items, f"{last.created_ms} {last.digest}" if last and len(rows) > limit else None)


def _place(cursor: str) -> tuple[int, str]:
    created_ms, _, digest = cursor.partition(" ")
    if not (created_ms.isascii() and created_ms.isdigit() and len(created_ms) < 19 and digest.isalnum()):
        raise InvalidInput(f"cursor {cursor[:80]!r} is none that a page gave. Start without one.", fields=["cursor"])
    return int(created_ms), digest


def _agent(row: Row) -> AgentView:
    spec = _spec(row)
    in_room = spec.get("kind") == WAKE
    kind: AgentKind = "room" if in_room else "function" if is_function(spec) else "agent"
    own = cast("dict[str, Any]", spec.get("agent")) if in_room else spec
    tools = tuple(str(tool["name"]) for tool in own.get("tools", ()))
    facts = {"versions": row["versions"], "digest": row["digest"], "since_ms": row["created_ms"]}
    return AgentView(row["agent"], kind, str(own.get("model", "")), tools, **facts)


def _spec(row: Row) -> dict[str, Any]:
    what = f"definition {row['digest']}"
    found = value_of(row["spec"], what)
    if not isinstance(found, dict):
        raise damaged(what, TypeError(f"an object was stored, found {found!r:.40}"))
    return cast("dict[str, Any]", found)
