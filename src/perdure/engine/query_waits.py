"""Read what an execution waits for from outside, and which executions it began."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.core import states
from perdure.core.spoken import moment
from perdure.core.views import ChildView, WaitView
from perdure.engine.delay import START
from perdure.engine.gist import Gist
from perdure.engine.tags import tags_in
from perdure.engine.wake import never_claimed
from perdure.store.protocol import Reads, Row

MOST_CHILDREN = 500
"""Executions of one tree that are shown."""


def outside_waits(reads: Reads, row: Row, gist: Gist) -> list[WaitView]:
    """Return the tokens, signals and children that an execution waits for, or its start."""
    if row["state"] in states.TERMINAL:
        return []
    scope = {"shard": row["shard"], "execution": row["id"]}
    if not_begun_row(row):
        return [_start(reads, row)]
    tokens = [_token(found) for found in reads.rows("open_tokens_of", **scope)]
    return [*tokens, *gist.waits()]


def not_begun_row(row: Row) -> bool:
    """Say of a stored row what `wake.not_begun` says of a locked one."""
    return row["state"] == states.Execution.WAITING and never_claimed(row["fence"])


def _start(reads: Reads, row: Row) -> WaitView:
    found = reads.row("start_of", shard=row["shard"], execution=row["id"], kind=START)
    when = "" if found is None else f", at {moment(found['due_ms'])}"
    return WaitView("start", "", row["created_ms"], f"its start{when}")


def _token(found: Row) -> WaitView:
    until = f", which expires at {moment(found['expires_ms'])}" if found["expires_ms"] is not None else ""
    return WaitView("token", found["address"], found["opened_ms"], f"token {found['id']} ({found['name']}){until}")


def birth_of(reads: Reads, row: Row) -> tuple[str | None, tuple[str, ...]]:
    """Return the execution that began this one, if one did, and its tags."""
    found = reads.row("lineage_of", shard=row["shard"], execution=row["id"])
    return (None, ()) if found is None else (found["parent"], tags_in(found["tags"]))


def tree_below(reads: Reads, execution: str) -> tuple[ChildView, ...]:
    """Return the executions that this one began, and those that they did: each after its parent, oldest first."""
    below: dict[str, list[Row]] = {}
    for row in reads.rows("descendants_of", root=execution, limit=MOST_CHILDREN):
        below.setdefault(row["parent"], []).append(row)
    return tuple(_in_order(below, execution))


def _in_order(below: dict[str, list[Row]], parent: str) -> Iterator[ChildView]:
    for row in below.get(parent, ()):
        yield ChildView(row["execution"], parent, row["address"], row["depth"], row["agent"], row["state"])
        yield from _in_order(below, row["execution"])
