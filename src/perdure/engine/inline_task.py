"""What log and row say of an `at_most_once` step that the holder of an execution runs itself. It is on no queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.core.codec import Json
from perdure.core.delivery import Delivery
from perdure.core.ids import action_key
from perdure.core.items import BeginStep, OfferStep, SimulatedStep
from perdure.core.rules import DEFAULT_RULES, TaskRules, rules_to_text
from perdure.store.rows import ExecutionRow

InlineStep = BeginStep | OfferStep | SimulatedStep


def inline_facts(row: ExecutionRow, item: InlineStep, timeout_ms: int = 0, **more: Json) -> dict[str, Any]:
    """Return the data of the event that schedules it."""
    return {
        "tool": item.name,
        "args": item.args,
        "queue": "",
        "delivery": Delivery.AT_MOST_ONCE,
        "key": action_key(row.id, item.address),
        "max_attempts": 1,
        "timeout_ms": timeout_ms,
        "approval": None,
        **more,
    }


def inline_task(
    row: ExecutionRow,
    item: InlineStep,
    facts: Mapping[str, Any],
    seq: int,
    state: str,
    now_ms: int,
    rules: TaskRules = DEFAULT_RULES,
) -> dict[str, Any]:
    """Return its row, scheduled by the event `seq` with these `facts`."""
    return {
        "shard": row.shard,
        "execution": row.id,
        "address": item.address,
        "company": row.company,
        "agent": row.agent,
        "tool": item.name,
        "queue": "",
        "state": state,
        "delivery": facts["delivery"],
        "max_attempts": 1,
        "pause_ms": rules.pause_ms,
        "rules": rules_to_text(rules),
        "timeout_ms": facts["timeout_ms"],
        "scheduled_seq": seq,
        "approval": None,
        "digest": item.digest,
        "intent": None,
        "ahead_ms": 0,
        "limit_key": "",
        "now_ms": now_ms,
    }
