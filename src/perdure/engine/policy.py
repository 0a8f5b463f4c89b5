"""Rule on effects that nobody ruled on in time, as the authors of their tools declared. Bounded per pass."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core import states
from perdure.core.views import Ruling
from perdure.engine.change import RULE
from perdure.engine.due import Pick, Sweep, due, passed
from perdure.engine.rule import Word, rule_on
from perdure.engine.task import rules_of
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.tx import Tx

BY = "policy"
UNRULED = Pick("deadlines_due", {"kind": RULE})


@operation()
def rule_by_policy(tx: Tx, rows: Sequence[Sweep]) -> Steps[int]:
    """End the doubt about what is still uncertain. Never by running anything."""
    found = due(tx, rows, UNRULED)
    yield [Ref(one["shard"], one["execution"]) for one in found]
    for execution, task in passed(tx, found, RULE, "ruling by policy"):
        if task["state"] == states.Task.UNCERTAIN:
            rules = rules_of(task)
            reason = f"nobody ruled within {rules.rule_by_ms / 1000:g} s"
            rule_on(tx, execution, task, Word(_declared(rules.rule_as), BY, reason))
    return [len(found)] + [0] * (len(rows) - 1)


def _declared(word: str) -> Ruling:
    return "happened" if word == "happened" else "give_up"
