"""Wake agents: the claim of a cause and the execution that it owns, in the transaction that stores the cause.

The claim's primary key takes (room, agent, cause) once, and nothing takes it back. So a cause that is sent a hundred
times, over any number of servers, is one wake.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.core import codec
from perdure.core.rooms import MOST_HOPS, Actor, wake_id
from perdure.engine.rooms_members import Member
from perdure.engine.start import Start, create
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


def wake_all(tx: Tx, room: ExecutionRow, actor: Actor, members: Iterable[Member], cause: str) -> tuple[str, ...]:
    """Begin a wake for each agent among these that the cause has not woken before; return their executions.

    Nobody wakes itself. Agents that woke each other `MOST_HOPS` times in a row wake nobody until a person writes.
    """
    if actor.hops >= MOST_HOPS:
        return ()
    agents = sorted(one for one in members if one.name and not _same(one, actor))
    return tuple(id for one in agents if (id := _wake(tx, room, actor, one, cause)) is not None)


def _same(member: Member, actor: Actor) -> bool:
    return actor.kind == "agent" and (member.company, member.name) == (actor.company, actor.name)


def _wake(tx: Tx, room: ExecutionRow, actor: Actor, agent: Member, cause: str) -> str | None:
    id = wake_id(room.id, agent.company, agent.name, cause, tx.now_ms)
    claim = {"room": room.id, "company": agent.company, "agent": agent.name, "cause": cause}
    if not tx.run("insert_room_wake", **claim, execution=id, now_ms=tx.now_ms):
        return None
    given = {
        "room": room.id,
        "agent": agent.name,
        "cause": cause,
        "asked_by": f"{actor.company}/{actor.name}",
        "hops": actor.hops + 1,
    }
    by = f"{room.id} {cause}"
    create(tx, Start(id, agent.company, agent.name, agent.definition, "", codec.encode(given), None, by=by))
    return id
