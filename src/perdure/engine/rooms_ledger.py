"""What a room's ledger says of an act, and what is answered to one that was done before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.core.rooms import Actor, RoomKind, Written
from perdure.errors import Conflict
from perdure.store.protocol import Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


def note(
    tx: Tx,
    room: ExecutionRow,
    actor: Actor,
    kind: RoomKind,
    about: str = "",
    digest: str = "",
    facts: Mapping[str, Any] | None = None,
) -> int:
    """Append a line to the ledger, `facts` in it, and return its number. No text of anybody's goes into it."""
    data: dict[str, Any] = {"company": actor.company, "by": actor.name, "kind": actor.kind, "decision": "allowed"}
    if actor.word:
        data |= {"decision": "approved", "on_word_of": actor.word}
    if actor.execution:
        data |= {"execution": actor.execution, "woken_by": actor.cause, "asked_by": actor.asked_by}
    return tx.append(room, kind, about, digest, data | dict(facts or {}))


def again(known: Row, digest: str, what: str) -> Written | Conflict:
    """Return what was written before under a key, or that it was something else."""
    if known["digest"] == digest:
        return Written(known["id"], known["seq"], created=False)
    return Conflict(
        f"{what} was used for {known['id']} with other content. Use a new key for new content, or send the first "
        "again.",
        code="room_key_conflict",
        id=known["id"],
    )
