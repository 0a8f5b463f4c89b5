"""What there is to do, in one query: for whoever waits in a process whose store others write to, and for its sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from perdure.core.codec import Json
from perdure.core.work import Lane
from perdure.engine.keys import DEFAULT_COMPANY
from perdure.store.protocol import Reads, Row
from perdure.store.sql_store import names

CompanyLane = tuple[str, Lane]
_OF_LANE = ("first_ms", "last_ms", "changed_ms", "held")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look for."""

    ready: Iterable[str] = ()
    """Lanes of executions."""
    tasks: Iterable[CompanyLane] = ()
    served: Iterable[str] = ()
    """Queues whose takers take for every company."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a look found; lanes with nothing in them are left out."""

    ready: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """By lane: where the first and the last of its ready executions stand."""
    tasks: Mapping[CompanyLane, tuple[Any, ...]] = field(default_factory=dict[CompanyLane, tuple[Any, ...]])
    """By lane: where the first and the last that are due stand; and of a queue with settings, what may make room."""
    served: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    due: Mapping[str, int | None] = field(default_factory=dict[str, int | None])
    """When the next of each kind of thing is due, for the sweeps."""


def look(reads: Reads, wanted: Wanted, now_ms: int) -> Found:
    """Look for all of it. A task counts from when it is due."""
    rows = reads.rows(
        "look",
        lanes=names("look", dict.fromkeys(wanted.ready, 0)),
        tasks=names("look", _tree(wanted.tasks)),
        served=names("look", dict.fromkeys(wanted.served, 0)),
        own=DEFAULT_COMPANY,
        now_ms=now_ms,
    )
    full = [row for row in rows if row["first_ms"] is not None]
    return Found(
        {row["name"]: (row["first_ms"], row["last_ms"]) for row in full if row["kind"] == "ready"},
        {_lane(row): tuple(row[name] for name in _OF_LANE) for row in full if row["kind"] == "tasks"},
        {row["name"]: (row["first_ms"], row["last_ms"]) for row in full if row["kind"] == "served"},
        {row["name"]: row["first_ms"] for row in rows if row["kind"] == "due"},
    )


def deadlines(reads: Reads) -> Mapping[str, int | None]:
    """Return when the next of each kind of thing is due: whether a sweep has anything to do."""
    return look(reads, Wanted(), 0).due


def _lane(row: Row) -> CompanyLane:
    return row["name"], Lane(row["agent"], row["tool"], row["queue"])


def _tree(tasks: Iterable[CompanyLane]) -> dict[str, Json]:
    """Return lanes as the query takes them: company, queue, agent, tool, each below the one before."""
    tree: dict[str, Any] = {}
    for company, lane in tasks:
        place = tree.setdefault(company, {}).setdefault(lane.queue, {}).setdefault(lane.agent, {})
        place[lane.tool] = 0
    return tree
