"""What of a company's executions somebody who watches them would want to see again. Reads rows only.

A look has bounds, whatever the store holds: the newest executions, of each state that goes on the newest, and those
that the look before saw going on. What stands outside of them is seen when a page of a list is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from perdure.core import states
from perdure.core.codec import Json
from perdure.core.ids import shard_of
from perdure.core.views import ExecutionFilter, ExecutionSummary
from perdure.engine.query_list import AFTER_ALL_IDS, execution_page, summary_of
from perdure.store.protocol import Reads
from perdure.store.sql_store import names

NEWEST = 100
"""Executions of any state, and of each state that goes on, that a look sees."""
MOST_MISSED = 500
"""Executions that went on in the look before and are looked up one by one."""
MOST_COUNTED = 10_000
"""A count ends there: counting costs what it counts."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look saw."""

    executions: Mapping[str, ExecutionSummary] = field(default_factory=dict[str, ExecutionSummary])
    approvals: tuple[int, int] = (0, 0)
    """How many are open, and when the newest of them was opened."""

    def news_since(self, before: Seen) -> list[ExecutionSummary]:
        """Return those that are new, or stand elsewhere, than in an earlier look; the newest last."""
        found = [one for id, one in self.executions.items() if before.executions.get(id) != one]
        return sorted(found, key=lambda one: one.id)


def look_at(reads: Reads, company: str, before: Seen) -> Seen:
    """Look once. `before`: what the look before saw."""
    pages = [execution_page(reads, company, ExecutionFilter(), limit=NEWEST)]
    pages += [execution_page(reads, company, ExecutionFilter(state=one), limit=NEWEST) for one in _GO_ON]
    found = {one.id: one for page in pages for one in page.items}
    missed = (id for id, one in before.executions.items() if one.state not in states.TERMINAL and id not in found)
    wanted: dict[str, Json] = {id: shard_of(id) for id in islice(missed, MOST_MISSED)}
    if wanted:
        rows = reads.rows("executions_named", company=company, wanted=names("executions_named", wanted))
        found |= {row["id"]: summary_of(row) for row in rows}
    open_ = reads.row("open_approvals", company=company)
    return Seen(found, (open_["n"], open_["newest_ms"] or 0) if open_ else (0, 0))


def counts_of(reads: Reads, company: str, agent: str | None) -> dict[str, int]:
    """Return how many executions are in each state, at most `MOST_COUNTED` of each."""
    scope = {"company": company, "before": AFTER_ALL_IDS, "above": "", "most": MOST_COUNTED}
    found: dict[str, int] = {}
    for one in states.Execution:
        if agent is None:
            row = reads.row("some_in_state", state=one, **scope)
        else:
            row = reads.row("some_of_agent", state=one, agent=agent, **scope)
        found[one.value] = row["n"] if row else 0
    return found


_GO_ON = [one for one in states.Execution if one not in states.TERMINAL]
