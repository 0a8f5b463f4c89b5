"""Put a call that has failed for good back on its queue, because somebody says so. Recorded; never done by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perdure.core import states
from perdure.core.delivery import NOT_DONE
from perdure.core.events import Kind
from perdure.core.ids import shard_of
from perdure.core.rules import rules_to_text
from perdure.engine.approvals import NOT_APPROVED
from perdure.engine.change import set_task, tell, unwanted
from perdure.engine.stored import facts_of
from perdure.engine.task import rules_of
from perdure.engine.uncertain import log_of
from perdure.errors import Conflict, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Revive:
    """Somebody wants a dead task tried again."""

    company: str
    execution: str
    address: str
    by: str
    reason: str


def _keys(row: Revive) -> tuple[str, ...]:
    return (f"task/{row.execution}/{row.address}",)


@operation(keys=_keys)
def revive(tx: Tx, rows: Sequence[Revive]) -> Steps[Conflict | NotFound | None]:
    """Give dead tasks their attempts anew, without a deadline, under the same idempotency key.

    What the model was told stays told: the log says that the call failed, then that it was put back, then how it ended,
    and the model is told the last two as news. The same words again change nothing until it is dead anew. Refused for
    an execution that has ended or is being cancelled, for a durable function, whose code has gone on from the failure,
    for what nobody approved, and for what may have acted: that is for a ruling.
    """
    yield [Ref(shard_of(row.execution), row.execution) for row in rows]
    return [_revive(tx, row, tx.execution(row.execution)) for row in rows]


def _revive(tx: Tx, row: Revive, execution: ExecutionRow | None) -> Conflict | NotFound | None:
    if execution is None or execution.company != row.company:
        return NotFound(f"there is no execution {row.execution}. `perdure executions list` shows yours.")
    task = tx.row("task", shard=execution.shard, execution=execution.id, address=row.address)
    if task is None:
        return NotFound(
            f"execution {row.execution} has no task {row.address!r}. `perdure tasks list {row.execution}` shows them."
        )
    if not states.allowed(states.TASK_TABLE, task["state"], "revive") and _said(tx, row, execution):
        return None
    if (refusal := _refusal(tx, execution, task)) is not None:
        return refusal
    scheduled = tx.row("task_scheduling", shard=execution.shard, execution=execution.id, seq=task["scheduled_seq"])
    what = f"the call at {row.address!r} of execution {row.execution}"
    attempts = facts_of(scheduled["data"], what)["max_attempts"] if scheduled else 1
    tx.run(
        "revive_task",
        shard=execution.shard,
        execution=execution.id,
        address=row.address,
        max_attempts=max(task["attempt"], task["claims"]) + attempts,
        rules=rules_to_text(replace(rules_of(task), deadline_ms=0)),
    )
    set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], "revive"))
    facts = {"by": row.by, "reason": row.reason, "attempts": attempts}
    tell(tx, execution, Kind.TASK_REVIVED, row.address, facts)
    return None


def _said(tx: Tx, row: Revive, execution: ExecutionRow) -> bool:
    """Say whether it was last put back by this very word: its answer was lost, and it is simply sent again."""
    revived = [data for _, kind, data in log_of(tx, execution, row.address) if kind is Kind.TASK_REVIVED]
    return bool(revived) and (revived[-1]["by"], revived[-1]["reason"]) == (row.by, row.reason)


def _refusal(tx: Tx, execution: ExecutionRow, task: Row) -> Conflict | None:
    where = f"task {task['address']!r} of execution {execution.id}"
    if not states.allowed(states.TASK_TABLE, task["state"], "revive"):
        return Conflict(
            f"{where} is {task['state']}, not dead: there is nothing to put back.",
            code="not_dead",
            state=task["state"],
        )
    if unwanted(execution, task):
        return Conflict(f"execution {execution.id} is {execution.state}; nothing runs for it any more.", code="ended")
    if execution.lane:
        return Conflict(
            f"{where}: the code of this durable function was told that it failed and has gone on from there, which no "
            "retry can change. Start it anew, or fork it before that step.",
            code="answered",
        )
    code = _last_code(tx, execution, task)
    if code == NOT_APPROVED:
        return Conflict(
            f"{where} is not what was approved, and was not made: no retry makes up for a yes. Have it asked for anew.",
            code=NOT_APPROVED,
        )
    if task["claims"] and code != NOT_DONE:
        return Conflict(
            f"{where} had begun under at_most_once and was given up: only a ruling may let such a call run again.",
            code="had_begun",
        )
    return None


def _last_code(tx: Tx, execution: ExecutionRow, task: Row) -> str | None:
    """Return the code of the newest failure that was recorded of a task, unless a ruling came after it."""
    rows = tx.rows("told_at", shard=execution.shard, execution=execution.id, address=task["address"])
    ends = [row for row in rows if row["kind"] in (Kind.TASK_FAILED, Kind.EFFECT_RULED)]
    what = f"how task {task['address']!r} of execution {execution.id} ended"
    return facts_of(ends[-1]["data"], what).get("code") if ends else None
