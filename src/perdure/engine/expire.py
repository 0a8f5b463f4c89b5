"""End approvals that nobody gave in time: once each, and never early by the store's clock. Bounded per pass."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core import states
from perdure.engine.due import Pick, Sweep, due, orphaned
from perdure.engine.resolve import expire, point_of
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.tx import Tx

UNDECIDED = Pick("approvals_due")


@operation()
def expire_approvals(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
    """Have the models told that their calls were not approved. Those decided meanwhile are passed over."""
    found = due(tx, rows, UNDECIDED)
    yield [Ref(one["shard"], one["execution"]) for one in found]
    for one in found:
        point = point_of(tx, one)
        if point is None:
            raise orphaned("approval", one)
        tx.run("delete_expiry", **point.scope)
        if point.row["state"] == states.Waitpoint.OPEN and not point.execution.ended:
            expire(tx, point)
    return [len(found)] + [0] * (len(rows) - 1)
