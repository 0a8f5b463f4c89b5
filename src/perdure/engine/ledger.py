"""Read the ledger: what executions did to the world, and their logs as they are stored, for those who check them.

Changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from perdure.core.chain import Link, LogPage
from perdure.core.delivery import simulation_tool
from perdure.core.ids import shard_of
from perdure.core.ledger import CONTRADICTED, SIMULATED, TaskNow, effects_of
from perdure.core.views import EffectFilter, EffectView
from perdure.engine.query import PAGE_BYTES, events_of, execution_row_of
from perdure.store.protocol import Reads, Row
from perdure.store.sql_store import names

MOST_EFFECTS = 1_000
"""In one answer."""


def effects_view(reads: Reads, company: str, wanted: EffectFilter) -> list[EffectView]:
    """Return a company's effects, those of the newest executions first, in an execution as they were scheduled."""
    rows = reads.rows(
        "list_effects",
        company=company,
        execution=wanted.execution or "",
        state="" if wanted.state in (None, CONTRADICTED, SIMULATED) else wanted.state,
        tool=wanted.tool or "",
        simulation=simulation_tool(wanted.tool or ""),
        simulations=f"%{simulation_tool('')}",
        forks=int(wanted.state == SIMULATED),
        agent=wanted.agent or "",
        since_ms=wanted.since_ms or 0,
        after=wanted.after,
        address=wanted.address or "",
        contradicted=int(wanted.state == CONTRADICTED),
        limit=MOST_EFFECTS,
    )
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["execution"], {})[row["address"]] = row
    effects = [effect for execution, tasks in found.items() for effect in _effects(reads, execution, tasks)]
    chosen = [effect for effect in effects if effect.simulated] if wanted.state == SIMULATED else effects
    if wanted.execution is not None and not chosen and len(rows) == MOST_EFFECTS:  # an empty answer is the last one
        return effects_view(reads, company, replace(wanted, after=rows[-1]["scheduled_seq"]))
    return chosen


def _effects(reads: Reads, execution: str, tasks: dict[str, Row]) -> list[EffectView]:
    first = min(row["scheduled_seq"] for row in tasks.values())
    given = names("task_events", dict.fromkeys(tasks, 1))
    scope = {"shard": shard_of(execution), "execution": execution}
    events = events_of(reads.rows("task_events", **scope, first=first, wanted=given))
    now = {address: TaskNow(row["state"], row["attempt"], row["worker"]) for address, row in tasks.items()}
    agent = next(iter(tasks.values()))["agent"]
    return [one for one in effects_of(execution, agent, events, now) if one.address in tasks]


def log_page(reads: Reads, company: str, execution: str, *, after: int, limit: int) -> LogPage:
    """Return stored rows above `after`, the evidence behind the last event included; at least one if there is any.

    Raises `NotFound`. What the page says of the log's end is of the same view as its rows.
    """
    row = execution_row_of(reads, company, execution)
    scope = {"shard": row["shard"], "execution": execution}
    last = row["next_seq"] - 1
    found = reads.rows("chain_after", **scope, after=after, limit=limit, most=PAGE_BYTES)
    if len(found) < limit and (found[-1]["seq"] if found else after) >= last:
        rest = limit - len(found)
        found += reads.rows("evidence_after", **scope, after=max(after, last), limit=rest)
    more = reads.row("last_evidence", **scope)
    return LogPage(
        execution=execution,
        agent=row["agent"],
        state=row["state"],
        head=row["chain"],
        events=last,
        last_seq=last if more is None or more["seq"] is None else more["seq"],
        links=tuple(map(_link, found)),
    )


def _link(row: Row) -> Link:
    return Link(**row)
