"""List executions a page at a time, newest first, by an index: a page costs what it holds, among any number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.core import states
from perdure.core.ids import id_of
from perdure.core.views import ExecutionFilter, ExecutionSummary, Page
from perdure.engine.tags import GOES_ON, tags_in
from perdure.errors import InvalidInput
from perdure.store.protocol import Reads, Row

AFTER_ALL_IDS = "~"
"""Sorts after every id."""
ID_SLACK_MS = 24 * 3_600_000
"""How far the clock of whoever made an id may be off from the store's, for a list of some time to find it."""
FEW = 2_000
"""So many executions of a state are looked through for a tag one by one."""
_SHOWN = ("id", "agent", "state", "reason", "created_ms", "updated_ms", "finished_ms")
_LAST_ID_MS = 2**48 - 1
_NEVER_MS = 2**62


def check_cursor(cursor: str | None) -> None:
    """Raise `InvalidInput` for what no page gave."""
    if cursor is not None and not cursor.startswith("exe_"):
        raise InvalidInput(f"cursor {cursor!r} is none that a page gave. Start without one.")


def execution_page(
    reads: Reads, company: str, wanted: ExecutionFilter, *, cursor: str | None = None, limit: int
) -> Page:
    """Return a page of a company's executions, newest first."""
    since_ms, until_ms = wanted.since_ms, wanted.until_ms
    last = AFTER_ALL_IDS if until_ms is None else id_at(until_ms, ID_SLACK_MS)
    above = "" if since_ms is None else id_at(since_ms, -ID_SLACK_MS)
    if begins := wanted.id_begins:
        last, above = min(last, begins + AFTER_ALL_IDS), max(above, _just_before(begins))
    window: dict[str, Any] = {
        "company": company,
        "before": min(cursor or AFTER_ALL_IDS, last),
        "above": above,
        "since_ms": since_ms or 0,
        "until_ms": _NEVER_MS if until_ms is None else until_ms,
        "limit": limit + 1,
    }
    rows = _rows(reads, wanted, window)
    items = tuple(summary_of(row) for row in rows[:limit])
    return Page(items, items[-1].id if len(rows) > limit else None)


def _rows(reads: Reads, wanted: ExecutionFilter, window: Mapping[str, Any]) -> list[Row]:
    if wanted.tag is not None:
        return _tagged(reads, wanted, window)
    if wanted.agent is not None:
        # Each state by itself: the index has it before the id, so a rare one of a busy agent is found, too.
        states_ = states.Execution if wanted.state is None else [wanted.state]
        return _newest(reads.rows("list_executions_of", agent=wanted.agent, state=one, **window) for one in states_)
    if wanted.state is not None:
        return reads.rows("list_executions_in", state=wanted.state, **window)
    return reads.rows("list_executions", **window)


def _tagged(reads: Reads, wanted: ExecutionFilter, window: Mapping[str, Any]) -> list[Row]:
    """Ask for those that ended in each way, and for those that go on. The index of tags does not know in which state
    these are: of a state that few are in, each is looked at; else many are, and a page of them is soon full."""
    given = {**window, "tag": wanted.tag}
    state, agent = wanted.state, wanted.agent
    goes_on = state is not None and state not in states.TERMINAL
    if goes_on and _few(reads, state, window):
        return reads.rows("list_tagged_among", state=state, agent=agent or "", **given)
    ends = [GOES_ON, *sorted(states.TERMINAL)] if state is None else [GOES_ON if goes_on else state]
    given["state"] = state if goes_on else ""
    if agent is None:
        return _newest(reads.rows("list_tagged", ended=one, **given) for one in ends)
    return _newest(reads.rows("list_tagged_of", ended=one, agent=agent, **given) for one in ends)


def _few(reads: Reads, state: str | None, window: Mapping[str, Any]) -> bool:
    scope = {name: window[name] for name in ("company", "before", "above")}
    found = reads.row("some_in_state", state=state, most=FEW, **scope)
    return found is None or found["n"] < FEW


def _newest(found: Iterable[list[Row]]) -> list[Row]:
    return sorted((row for rows in found for row in rows), key=lambda row: row["id"], reverse=True)


def summary_of(row: Row) -> ExecutionSummary:
    facts: dict[str, Any] = {name: row[name] for name in _SHOWN}
    return ExecutionSummary(**facts, tags=tags_in(row["tags"]))


def id_at(moment_ms: int, slack_ms: int) -> str:
    """Return the least id of a moment, put off by some slack."""
    return id_of("exe", min(max(moment_ms + slack_ms, 0), _LAST_ID_MS), b"")


def _just_before(begins: str) -> str:
    """Return what sorts before all ids that begin so, and behind all others that sort before these."""
    return begins[:-1] + chr(ord(begins[-1]) - 1) + AFTER_ALL_IDS
