"""Take a person's decision about an approval: once, on what was shown, with who and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core import states
from perdure.core.events import Kind
from perdure.core.views import Decision
from perdure.engine.wake import wake
from perdure.errors import Conflict, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref, Row
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Decide:
    """Somebody's answer."""

    company: str
    approval: str
    decision: Decision
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision stands."""

    ref: Ref


def _keys(row: Decide) -> tuple[str, ...]:
    return (f"approval/{row.approval}",)


@operation(keys=_keys)
def decide(tx: Tx, rows: Sequence[Decide]) -> Steps[Decided | Conflict | NotFound]:
    """Resolve the waitpoint and wake the execution. The loser of a race gets a `Conflict` that names the winner."""
    found = [tx.row("waitpoint_by_id", id=row.approval, company=row.company) for row in rows]
    yield [Ref(one["shard"], one["execution"]) for one in found if one]
    return [_decide(tx, row, one) for row, one in zip(rows, found, strict=True)]


def _decide(tx: Tx, row: Decide, found: Row | None) -> Decided | Conflict | NotFound:
    scope = {name: found[name] for name in ("shard", "execution", "address")} if found else {}
    execution = tx.execution(scope["execution"]) if scope else None
    point = tx.row("waitpoint", **scope) if scope else None  # read again: now it is locked
    if execution is None or point is None:
        return NotFound(f"there is no approval {row.approval}. `perdure approvals list` shows the open ones.")
    if point["state"] == states.Waitpoint.RESOLVED:
        return _already(row, point, execution.ref)
    if point["state"] != states.Waitpoint.OPEN or execution.ended or execution.state == states.Execution.CANCELLING:
        return Conflict(
            f"approval {row.approval} is not waited for any more: its execution {execution.id} is {execution.state}.",
            code="not_waiting",
        )
    tx.run("resolve_waitpoint", **scope, decision=row.decision, by=row.by, reason=row.reason, now_ms=tx.now_ms)
    facts = {"id": row.approval, "decision": row.decision, "by": row.by, "reason": row.reason}
    tx.append(execution, Kind.WAIT_RESOLVED, scope["address"], data=facts)
    wake(tx, execution)
    return Decided(execution.ref)


def _already(row: Decide, point: Row, ref: Ref) -> Decided | Conflict:
    """The same answer by the same person again changes nothing and is no error: a lost reply is simply sent again."""
    if (point["decision"], point["decided_by"], point["reason"]) == (row.decision, row.by, row.reason):
        return Decided(ref)
    return Conflict(
        f"approval {row.approval} was already decided: {point['decision']} by {point['decided_by'] or 'somebody'}. "
        "A decision is final; start a new execution to ask again.",
        code="already_decided",
        decision=point["decision"],
        decided_by=point["decided_by"],
    )
