"""Take somebody's word for what an uncertain effect was: a person's, a probe's, or its author's for when nobody says.

Nothing is ever guessed, and nothing silently runs again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perdure.core import codec, states
from perdure.core.codec import Json
from perdure.core.events import Kind
from perdure.core.ids import shard_of
from perdure.core.views import Ruling
from perdure.engine.change import set_task, tell, unwanted
from perdure.engine.uncertain import log_of, serve_held, settled_ms
from perdure.errors import Conflict, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Word:
    """What somebody says of an effect: `happened` (with the result, if known), `run` (it did not: do it), `give_up`."""

    ruling: Ruling
    by: str
    reason: str
    value: Json = None

    def facts(self) -> dict[str, Any]:
        """Return what the log keeps of it."""
        return {"ruling": self.ruling, "by": self.by, "reason": self.reason, "value": self.value}


@dataclass(frozen=True, slots=True)
class Rule:
    """A person's ruling."""

    company: str
    execution: str
    address: str
    ruling: Ruling
    by: str
    reason: str
    value: Json = None

    @property
    def size(self) -> int:
        return codec.weight(self.value)


def _keys(row: Rule) -> tuple[str, ...]:
    return (f"task/{row.execution}/{row.address}",)


@operation(keys=_keys)
def rule(tx: Tx, rows: Sequence[Rule]) -> Steps[Conflict | NotFound | None]:
    """Apply the ruling. `run` raises the fence and opens a second claim in the ruler's name.

    `run` says that it did not happen, so it counts only once it cannot be happening any more: else `not_settled`.
    """
    yield [Ref(shard_of(row.execution), row.execution) for row in rows]
    return [_rule(tx, row, tx.execution(row.execution)) for row in rows]


def _rule(tx: Tx, row: Rule, execution: ExecutionRow | None) -> Conflict | NotFound | None:
    if execution is None or execution.company != row.company:
        return NotFound(f"there is no execution {row.execution}. `perdure effects list` shows uncertain effects.")
    task = tx.row("task", shard=execution.shard, execution=execution.id, address=row.address)
    if task is None:
        return NotFound(f"execution {row.execution} has no step {row.address!r}.")
    word = Word(row.ruling, row.by, row.reason, row.value)
    if not states.allowed(states.TASK_TABLE, task["state"], f"rule_{row.ruling}"):
        if _same(tx, execution, row.address, word):
            return None
        return Conflict(
            f"step {row.address!r} of execution {row.execution} is {task['state']}, not uncertain: "
            "there is nothing to rule on.",
            code="not_uncertain",
            state=task["state"],
        )
    refusal = _too_early(tx, task) if row.ruling == "run" else None
    if row.ruling == "run" and unwanted(execution, task):
        refusal = Conflict(
            f"execution {row.execution} is {execution.state}; nothing runs for it any more.", code="ended"
        )
    if refusal is None:
        rule_on(tx, execution, task, word)
    return refusal


def _too_early(tx: Tx, task: Row) -> Conflict | None:
    left_ms = settled_ms(task) - tx.now_ms
    if left_ms <= 0:
        return None
    return Conflict(
        f"step {task['address']!r} of execution {task['execution']} may still be happening: that it did not can be "
        f"ruled in {left_ms / 1000:.1f} s, if its worker stays silent. That it happened can be ruled at once.",
        code="not_settled",
        after_ms=left_ms,
    )


def rule_on(tx: Tx, execution: ExecutionRow, task: Row, word: Word) -> None:
    """Apply a ruling that the table of states allows, on a task that is uncertain."""
    set_task(tx, execution, task, states.move(states.TASK_TABLE, task["state"], f"rule_{word.ruling}"))
    if word.ruling == "run":
        tx.run("open_claim", shard=execution.shard, execution=execution.id, address=task["address"])
    tell(tx, execution, Kind.EFFECT_RULED, task["address"], word.facts())
    if word.ruling == "happened":
        serve_held(tx, execution, task, word.value)


def _same(tx: Tx, execution: ExecutionRow, address: str, word: Word) -> bool:
    """Say whether this very ruling was the last: its answer was lost, and it is simply sent again."""
    rulings = [data for _, kind, data in log_of(tx, execution, address) if kind is Kind.EFFECT_RULED]
    return bool(rulings) and rulings[-1] == codec.decode(codec.encode(word.facts()))
