"""Find the tasks that their holders speak of: of the holder's own company, and still under the fence it was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

from perdure.core.codec import Json
from perdure.core.ids import shard_of
from perdure.core.rules import TaskRules, rules_from_text
from perdure.engine.stored import damaged
from perdure.errors import InvalidInput
from perdure.store.protocol import Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


class Named(Protocol):
    """Whatever names a task as its holder knows it."""

    @property
    def execution(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def fence(self) -> int: ...


def rules_of(task: Row) -> TaskRules:
    """Return the rules of a stored task. Its pause has a column of its own, which rows of the first release have.

    Raises Conflict (`row_damaged`) for what no release wrote.
    """
    try:
        return _rules(task["rules"], task["pause_ms"])
    except (ValueError, TypeError, AttributeError, InvalidInput) as error:
        raise damaged(f"the rules of task {task.get('address')!r}", error) from None


@lru_cache(maxsize=1_024)  # asked for several times for each lease, and most tasks share theirs
def _rules(text: str, pause_ms: int) -> TaskRules:
    return replace(rules_from_text(text), pause_ms=pause_ms)


Held = tuple[ExecutionRow, Row]
"""A task and its execution, which the transaction has locked."""


def ref_of(named: Named) -> Ref:
    """Return the execution to lock."""
    return Ref(shard_of(named.execution), named.execution)


def held_tasks(tx: Tx, wanted: Sequence[tuple[str, Named]]) -> list[Held | None]:
    """Return what each (company, name) stands for. None: there is none, it is another company's, its fence moved on."""
    addresses: dict[str, dict[str, Json]] = {}
    for _, named in wanted:
        addresses.setdefault(named.execution, {})[named.address] = shard_of(named.execution)
    tasks = {(task["execution"], task["address"]): task for task in tx.named("tasks_named", addresses)}
    return [
        _held(tx.execution(named.execution), company, named, tasks.get((named.execution, named.address)))
        for company, named in wanted
    ]


def _held(execution: ExecutionRow | None, company: str, named: Named, task: Row | None) -> Held | None:
    if execution is None or execution.company != company or task is None or task["fence"] != named.fence:
        return None
    return execution, task
