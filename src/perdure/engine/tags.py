"""Have executions found by their tags. Rows of those that have tags; those without never come here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from perdure.core import codec
from perdure.engine.stored import damaged, value_of
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

GOES_ON = ""
"""How tags are listed whose execution has not ended."""


def tag(tx: Tx, row: ExecutionRow, tags: Sequence[str]) -> None:
    """Put tags on a new execution that comes from nowhere."""
    tx.later("insert_tags", shard=row.shard, execution=row.id, tags=told(tags))
    list_under(tx, row, tags)


def list_under(tx: Tx, row: ExecutionRow, tags: Sequence[str]) -> None:
    """Have a new execution listed under its tags, as one that goes on."""
    for each in sorted(tags):
        facts = {"tag": each, "company": row.company, "agent": row.agent, "ended": GOES_ON}
        tx.later("insert_tagged", shard=row.shard, execution=row.id, **facts)


def end_tags(tx: Tx, row: ExecutionRow) -> None:
    """Have a tagged execution that has just ended listed as such."""
    tx.later("end_tagged", shard=row.shard, execution=row.id, ended=row.state)


def told(tags: Sequence[str]) -> str:
    """Return tags as they are stored."""
    return codec.encode(list(tags))


def tags_in(stored: str | None) -> tuple[str, ...]:
    """Return tags as they were given."""
    if stored is None:
        return ()
    what = f"the tags {stored!r:.80}"
    tags = value_of(stored, what)
    if not isinstance(tags, list):
        raise damaged(what, TypeError("a list was stored"))
    return tuple(map(str, cast("list[object]", tags)))
