"""Take a person's word for what an uncertain effect was. Nothing is ever guessed, and nothing silently runs again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perdure.core import codec, states
from perdure.core.codec import Json
from perdure.core.events import Kind
from perdure.core.ids import shard_of
from perdure.core.views import Ruling
from perdure.engine.complete import set_task, tell, unwanted
from perdure.errors import Conflict, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Rule:
    """One ruling: `happened` (with the result, if known), `run` (it did not: do it), `give_up`."""

    company: str
    execution: str
    address: str
    ruling: Ruling
    by: str
    reason: str
    value: Json = None


def _keys(row: Rule) -> tuple[str, ...]:
    return (f"task/{row.execution}/{row.address}",)


@operation(keys=_keys)
def rule(tx: Tx, rows: Sequence[Rule]) -> Steps[Conflict | NotFound | None]:
    """Apply the ruling. `run` raises the fence and opens a second claim in the ruler's name."""
    yield [Ref(shard_of(row.execution), row.execution) for row in rows]
    return [_rule(tx, row, tx.execution(row.execution)) for row in rows]


def _rule(tx: Tx, row: Rule, execution: ExecutionRow | None) -> Conflict | NotFound | None:
    if execution is None or execution.company != row.company:
        return NotFound(f"there is no execution {row.execution}. `perdure effects list` shows uncertain effects.")
    task = tx.row("task", shard=execution.shard, execution=execution.id, address=row.address)
    if task is None:
        return NotFound(f"execution {row.execution} has no step {row.address!r}.")
    event = f"rule_{row.ruling}"
    facts = {"ruling": row.ruling, "by": row.by, "reason": row.reason, "value": row.value}
    if not states.allowed(states.TASK_TABLE, task["state"], event):
        if _same(tx, execution, row.address, facts):
            return None
        return Conflict(
            f"step {row.address!r} of execution {row.execution} is {task['state']}, not uncertain: "
            "there is nothing to rule on.",
            code="not_uncertain",
            state=task["state"],
        )
    if row.ruling == "run" and unwanted(execution):
        return Conflict(f"execution {row.execution} is {execution.state}; nothing runs for it any more.", code="ended")
    set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], event))
    tx.run(
        "rule_task", shard=execution.shard, execution=execution.id, address=row.address, raised=int(row.ruling == "run")
    )
    tell(tx, execution, Kind.EFFECT_RULED, row.address, facts)
    return None


def _same(tx: Tx, execution: ExecutionRow, address: str, facts: dict[str, Any]) -> bool:
    """Say whether this very ruling was the last: its answer was lost, and it is simply sent again."""
    scope = {"shard": execution.shard, "execution": execution.id, "after": 0, "limit": execution.next_seq}
    rulings = (row for row in tx.rows("events_after", **scope) if row["kind"] == Kind.EFFECT_RULED)
    last = next((row for row in reversed([*rulings]) if row["address"] == address), None)
    return last is not None and codec.decode(last["data"]) == codec.decode(codec.encode(facts))
