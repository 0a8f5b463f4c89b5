"""Say in the log that an approval went to others, when nobody had decided in time: once each. Bounded per pass.

From that moment on they may decide, whether it was said yet or not: the store's clock decides (`core/approval.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core import states
from perdure.core.events import Kind
from perdure.engine.approvals import ESCALATION
from perdure.engine.due import Pick, Sweep, due, orphaned
from perdure.engine.resolve import point_of
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.tx import Tx

ESCALATING = Pick("deadlines_due", {"kind": ESCALATION})


@operation()
def escalate_approvals(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
    """Append who may decide now, too. Those decided meanwhile are passed over; the execution is not woken by it."""
    found = due(tx, rows, ESCALATING)
    yield [Ref(one["shard"], one["execution"]) for one in found]
    for one in found:
        point = point_of(tx, one)
        if point is None:
            raise orphaned("escalation", one)
        open_ = point.row["state"] == states.Waitpoint.OPEN and not point.execution.ended
        if tx.run("delete_deadline", **point.scope, kind=ESCALATION) and open_:
            facts = {
                "id": point.row["id"],
                "to": list(point.rules.escalate_to),
                "after_ms": tx.now_ms - point.row["opened_ms"],
            }
            tx.append(point.execution, Kind.APPROVAL_ESCALATED, point.row["address"], data=facts)
    return [len(found)] + [0] * (len(rows) - 1)
