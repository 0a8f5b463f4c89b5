"""Take a person's word that a step of a stuck execution only has another name now.

A fact of the log like any other: whoever runs the code again from it reads the old record under the new name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core import states
from perdure.core.events import ASKED, Kind
from perdure.core.ids import shard_of
from perdure.engine.stored import facts_of
from perdure.errors import Conflict, InvalidInput, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.rows import ExecutionRow
from perdure.store.sql_store import names
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class MapStep:
    """What the log calls `old` the code calls `new`. Addresses, or with a `/` at the end of both: scopes."""

    company: str
    execution: str
    old: str
    new: str
    by: str
    reason: str


def _keys(row: MapStep) -> tuple[str, ...]:
    return (f"mapping/{row.execution}",)


@operation(keys=_keys)
def map_step(tx: Tx, rows: Sequence[MapStep]) -> Steps[int | Conflict | InvalidInput | NotFound]:
    """Append the mapping and return its `seq`; of the last one said again, the one that it has. The execution stays
    stuck: `resume` makes it go on."""
    yield [Ref(shard_of(row.execution), row.execution) for row in rows]
    return [_map(tx, row, tx.execution(row.execution)) for row in rows]


def _map(tx: Tx, row: MapStep, execution: ExecutionRow | None) -> int | Conflict | InvalidInput | NotFound:
    if execution is None or execution.company != row.company:
        return NotFound(f"there is no execution {row.execution}. `perdure executions list` shows yours.")
    if not row.old or not row.new or row.old.endswith("/") != row.new.endswith("/"):
        return InvalidInput(
            f"map {row.old!r} to {row.new!r}: give two addresses, or two scopes, each with a `/` at its end.",
            code="bad_address",
        )
    facts = {"old": row.old, "new": row.new, "by": row.by, "reason": row.reason}
    if (seq := _said(tx, execution, facts)) is not None:
        return seq
    if execution.state != states.Execution.STUCK:
        return Conflict(
            f"execution {row.execution} is {execution.state}: steps are mapped where log and code disagree, which "
            "makes it stuck.",
            code="not_stuck",
            state=execution.state,
        )
    if not _recorded(tx, execution, row.old):
        return NotFound(
            f"the log of execution {row.execution} has no step {row.old!r}. `perdure executions show` lists them.",
            code="no_such_step",
        )
    return tx.append(execution, Kind.STEP_MAPPED, data=facts)


def _said(tx: Tx, execution: ExecutionRow, facts: dict[str, str]) -> int | None:
    """Return where the last mapping stands if it is this very one: its answer was lost, and it is simply sent again."""
    wanted = names("events_of_kinds", {Kind.STEP_MAPPED: 1})
    mapped = tx.rows("events_of_kinds", shard=execution.shard, execution=execution.id, wanted=wanted)
    what = f"what was mapped of execution {execution.id}"
    return mapped[-1]["seq"] if mapped and facts_of(mapped[-1]["data"], what) == facts else None


def _recorded(tx: Tx, execution: ExecutionRow, address: str) -> bool:
    scope = {"shard": execution.shard, "execution": execution.id, "address": address}
    wanted = names("asked_at", {kind.value: 1 for kind in ASKED})
    return tx.row("asked_at", **scope, within=int(address.endswith("/")), wanted=wanted) is not None
