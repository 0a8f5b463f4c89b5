"""Read which calls have failed for good: what may be put back on its queue, over all executions of a company."""

from __future__ import annotations

from perdure.core.delivery import simulated_tool
from perdure.core.queues import DeadFilter, DeadPage, DeadTask
from perdure.engine.stored import facts_of
from perdure.errors import InvalidInput
from perdure.store.protocol import Reads, Row

NEWEST = (2**62, "", "")


def dead_page(reads: Reads, company: str, wanted: DeadFilter, cursor: str | None, limit: int) -> DeadPage:
    """Return a page of them. Raises `InvalidInput` for a cursor that no page gave."""
    before_ms, before_execution, before_address = NEWEST if cursor is None else _place(cursor)
    rows = reads.rows(
        "dead_tasks",
        company=company,
        agent=wanted.agent or "",
        tool=wanted.tool or "",
        queue=wanted.queue or "",
        since_ms=wanted.since_ms or 0,
        before_ms=before_ms,
        before_execution=before_execution,
        before_address=before_address,
        limit=limit + 1,
    )
    items = tuple(map(_dead, rows[:limit]))
    return DeadPage(items, _cursor(items[-1]) if len(rows) > limit else None)


def _cursor(last: DeadTask) -> str:
    return f"{last.failed_ms} {last.execution} {last.address}"


def _place(cursor: str) -> tuple[int, str, str]:
    failed_ms, _, rest = cursor.partition(" ")
    execution, _, address = rest.partition(" ")
    if not (failed_ms.isdigit() and len(failed_ms) < 19 and execution and address):
        raise InvalidInput(f"cursor {cursor[:80]!r} is none that a page gave. Start without one.")
    return int(failed_ms), execution, address


def _dead(row: Row) -> DeadTask:
    what = f"how task {row['address']!r} of execution {row['execution']} failed"
    said = {} if row["failed"] is None else facts_of(row["failed"], what)
    return DeadTask(
        execution=row["execution"],
        address=row["address"],
        agent=row["agent"],
        tool=simulated_tool(row["tool"]),
        queue=row["queue"],
        attempt=row["attempt"],
        failed_ms=row["updated_ms"],
        code=str(said.get("code", "")),
        error=str(said.get("error", "")),
    )
