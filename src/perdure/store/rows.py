"""The execution's row while a transaction holds its lock."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from perdure.core import states
from perdure.store.protocol import Ref, Row


@dataclass(slots=True, kw_only=True)
class ExecutionRow:
    """Read under lock, changed in memory, written back once by `Tx.flush`. The defaults are those of a new one."""

    shard: int
    id: str
    company: str
    agent: str
    definition: str
    state: str
    reason: str | None = None
    ownership: str
    fence: int = 0
    next_seq: int = 1
    log_format: int
    active_ms: int = 0
    created_ms: int
    updated_ms: int
    finished_ms: int | None = None
    chain: str = ""
    """Hash of the last event, which covers all before it."""
    lane: str = ""
    """Who runs it: the servers' executors, or workers that have this durable function."""
    build: str = ""
    """Of the code that began it; empty for what servers run."""
    cancel_seq: int | None = None
    """Of its first cancel."""
    origin: str = ""
    """The execution that it was forked off."""
    kept_by: str = ""
    """Mark of the worker that parked it last and may still have its live coroutine."""
    priority: int = 0
    """As its start said, 0 to 9."""
    limit_key: str = ""
    """Likewise; empty: none."""
    changed: bool = False
    """Owner: `Tx`. Set by `move`, `append` and the engine; decides what `flush` writes."""
    stored: tuple[Any, ...] = ()
    """Owner: `Tx`. `standing_of` what the table has."""

    @property
    def ref(self) -> Ref:
        return Ref(self.shard, self.id)

    @property
    def ended(self) -> bool:
        return self.state in states.TERMINAL

    def may(self, event: str) -> bool:
        """Say whether the state table allows `event` now."""
        return states.allowed(states.EXECUTION_TABLE, self.state, event)

    def move(self, event: str) -> None:
        """Change state by the table. Raises `states.Refused`: ask `may` first."""
        self.state = states.move(states.EXECUTION_TABLE, self.state, event)
        self.changed = True


_COLUMNS = tuple(f.name for f in fields(ExecutionRow) if f.name not in ("changed", "stored"))
_values = attrgetter(*_COLUMNS)

standing_of = attrgetter(
    "state", "reason", "ownership", "fence", "active_ms", "finished_ms", "build", "cancel_seq", "kept_by"
)
"""Everything of a row that may change and does not change with every event."""


def execution_row(row: Row) -> ExecutionRow:
    """Build the object from a database row."""
    execution = ExecutionRow(**row)
    execution.stored = standing_of(execution)
    return execution


def params_of(row: ExecutionRow) -> dict[str, Any]:
    """Return the columns as statement parameters."""
    return dict(zip(_COLUMNS, _values(row), strict=True))


def log_of(row: ExecutionRow) -> dict[str, Any]:
    """Return what changes with every event, as statement parameters."""
    return {
        "shard": row.shard,
        "id": row.id,
        "next_seq": row.next_seq,
        "log_format": row.log_format,
        "updated_ms": row.updated_ms,
        "chain": row.chain,
    }
