"""Cancel what executions began that ended, or were cancelled, themselves: nothing runs on for nobody.

What a cancelled execution's recorded cleanup begins runs as usual, until that has ended, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core import states
from perdure.engine.children import LEFT
from perdure.engine.due import Pick, Sweep, due, orphaned
from perdure.engine.signal import cancel
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref, Row
from perdure.store.tx import Tx

LEAVING = Pick("deadlines_due", {"kind": LEFT})
MOST = 200
"""Children of one execution that are cancelled in one pass."""
_NONE_SPARED = 2**62
"""Behind the end of every log."""


@operation()
def cancel_children(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
    """Cancel the children of executions that want no more of them, and so in turn theirs."""
    found = due(tx, rows, LEAVING)
    seen = [row for one in found for row in _live(tx, one, _cancelled_at(tx, one))]
    yield [Ref(row["shard"], row["execution"]) for row in [*found, *seen]]
    for one in found:
        parent = tx.execution(one["execution"])
        if parent is None:
            raise orphaned("note about children", one)
        why = f"its parent {parent.id} {'has' if parent.ended else 'is'} {parent.state}"
        # Under the parent's lock nobody begins another, so this is all of them; one begun since we looked is not
        # locked, and waits for the next pass.
        live = _live(tx, one, parent.cancel_seq if parent.state == states.Execution.CANCELLING else None)
        held = [child for row in live if (child := tx.execution(row["execution"])) is not None]
        for child in held:
            if not child.ended and child.state != states.Execution.CANCELLING:
                cancel(tx, child, by="perdure", reason=why)
        if len(held) == len(live) < MOST:
            tx.run("delete_deadline", shard=parent.shard, execution=parent.id, address="", kind=LEFT)
    return [len(found)] + [0] * (len(rows) - 1)


def _live(tx: Tx, parent: Row, cancelled_at: int | None) -> list[Row]:
    """Return children that are to be cancelled: of a parent whose cleanup goes on, those begun before its cancel."""
    spared = {"shard": parent["shard"], "spared_after": _NONE_SPARED if cancelled_at is None else cancelled_at}
    return tx.rows("live_children_of", parent=parent["execution"], **spared, limit=MOST)


def _cancelled_at(tx: Tx, parent: Row) -> int | None:
    """Look before the lock."""
    found = tx.row("cancelled_at", shard=parent["shard"], execution=parent["execution"])
    return None if found is None else found["cancel_seq"]
