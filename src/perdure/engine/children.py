"""Executions that an execution begins: in its own transaction, told of when they end, cancelled when it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perdure.core import codec
from perdure.core.events import Kind
from perdure.core.ids import shard_of
from perdure.core.items import StartChild
from perdure.core.states import Execution
from perdure.engine.start import Start, create
from perdure.engine.tags import end_tags
from perdure.engine.wake import wake
from perdure.store.protocol import Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

LEFT = "children"
"""Kind of the deadline that says: cancel what this execution began."""


def start_child(tx: Tx, row: ExecutionRow, item: StartChild, *, wanted: bool) -> None:
    """Create the child, as urgent as its parent and of the same key, its lineage and the event that says so.

    Not `wanted`: cancelled before it ever existed.
    """
    head = codec.encode({"execution": item.id, "agent": item.agent})
    tx.append(row, Kind.CHILD_STARTED, item.address, item.digest, f'{head[:-1]},"input":{item.input}}}')
    if not wanted:
        tx.append(row, Kind.CHILD_ENDED, item.address, data=ending(item.id, Execution.CANCELLED))
        return
    spec = codec.encode_json(item.spec, "agent")
    given = (item.id, row.company, item.agent, item.definition, spec, item.input, None)
    start = Start(*given, lane=item.lane, build=item.build, priority=row.priority, limit_key=row.limit_key)
    create(tx, start)
    # An equal definition is there nearly always, and touches nothing; so the order of a batch's rows does not matter.
    tx.later(
        "insert_definition",
        company=row.company,
        digest=item.definition,
        agent=item.agent,
        spec=spec,
        now_ms=tx.now_ms,
    )
    tx.run("insert_lineage", shard=shard_of(item.id), execution=item.id, parent=row.id, parent_address=item.address)


def parents_of(tx: Tx, children: Iterable[Ref]) -> Mapping[str, Row]:
    """Return, for those of these executions that are children or tagged, which step of which execution began them,
    if one did, and their tags.

    Read before the lock: lineage never changes.
    """
    found = tx.named("parents_of", {ref.execution: ref.shard for ref in children})
    return {row["execution"]: row for row in found}


def refs_of(parents: Mapping[str, Row]) -> list[Ref]:
    """Return the parents, to be locked together with their children."""
    return [Ref(shard_of(parent), parent) for row in parents.values() if (parent := row["parent"]) is not None]


def tell_parent(tx: Tx, child: ExecutionRow, parents: Mapping[str, Row], data: str) -> None:
    """Say, in the transaction that ends an execution, how it ended: in its parent's log, which wakes the parent, and to
    whoever looks for its tags."""
    lineage = parents.get(child.id)
    if lineage is None:
        return
    if lineage["tags"] is not None:
        end_tags(tx, child)
    parent = tx.execution(lineage["parent"])
    if parent is None or parent.ended:
        return
    tx.append(parent, Kind.CHILD_ENDED, lineage["parent_address"], data=ending(child.id, child.state, data))
    wake(tx, parent)


def leave_children(tx: Tx, parents: Iterable[ExecutionRow]) -> None:
    """Have the children of these executions cancelled: they end, or are to be cancelled.

    A row for a sweep, because a child can be locked only together with its parent and may have been begun since.
    """
    rows = {row.id: row for row in parents}
    for found in tx.named("parents_among", {row.id: row.shard for row in rows.values()}):
        row = rows[found["execution"]]
        tx.run("set_deadline", shard=row.shard, execution=row.id, address="", kind=LEFT, due_ms=tx.now_ms)


def ending(child: str, state: str, data: str = "{}") -> str:
    """Return how a child ended as its parent's event says it: `data` is that of the child's last event, as JSON."""
    facts = codec.decode(data)
    failure = {"code": facts["code"], "error": facts["error"]} if "error" in facts else None
    told = {"execution": child, "state": state, "output": facts.get("output"), "failure": failure}
    return codec.encode(told, "output", codec.MAX_VALUE_BYTES + codec.ENVELOPE_BYTES)
