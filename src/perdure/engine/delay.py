"""Executions that are to begin later. Until then they wait, owned by nobody and on no list; only a cancel wakes them.

When that is is a row in the store, so no process has to live until then.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core import states
from perdure.engine.due import Pick, Sweep, due, orphaned
from perdure.engine.wake import never_claimed, not_begun, put_ready
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

START = "start"
"""Kind of the deadline at which an execution is to begin."""
STARTING = Pick("deadlines_due", {"kind": START})


def delay(tx: Tx, row: ExecutionRow, start_ms: int) -> None:
    """Have a new execution, whose state is `ready`, wait for its start."""
    row.move("delay")
    row.ownership = states.Ownership.PARKED
    tx.run("set_deadline", shard=row.shard, execution=row.id, address="", kind=START, due_ms=start_ms)


def delay_again(tx: Tx, row: ExecutionRow) -> bool:
    """Have an execution that was resumed wait on for its start, if that is still to come; say whether it is."""
    if not never_claimed(row.fence):
        return False
    found = tx.row("start_of", shard=row.shard, execution=row.id, kind=START)
    if found is None or found["due_ms"] <= tx.now_ms:
        return False
    delay(tx, row, found["due_ms"])
    return True


@operation()
def begin_delayed(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
    """Put executions on the ready list whose time has come, once each and never early by the store's clock.

    One that is paused then begins when it is resumed.
    """
    found = due(tx, rows, STARTING)
    yield [Ref(one["shard"], one["execution"]) for one in found]
    for one in found:
        row = tx.execution(one["execution"])
        if row is None:
            raise orphaned("start", one)
        scope = {"shard": one["shard"], "execution": one["execution"], "address": one["address"]}
        if tx.run("delete_deadline", **scope, kind=START) and not_begun(row):
            row.move("wake")
            row.ownership = states.Ownership.READY
            put_ready(tx, row)
    return [len(found)] + [0] * (len(rows) - 1)
