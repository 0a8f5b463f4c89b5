"""What a wake does in a room: the act, the ledger's line and the step that records it, in one transaction.

This is `record` for items of one kind. It is an operation of its own because it locks the room together with the
execution, in the one order of locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from perdure.core import codec, states
from perdure.core.events import ASKED, Kind
from perdure.core.items import ActInRoom, HoldAct
from perdure.core.rooms import RoomKind, Written
from perdure.engine.record import News, held_by, lost, news
from perdure.engine.rooms import room_ref
from perdure.engine.rooms_acts import perform, refuse
from perdure.engine.rooms_ledger import note
from perdure.engine.rooms_rights import open_hold, word_on
from perdure.engine.rooms_stops import STOPPED
from perdure.errors import Conflict, LeaseLost
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class Acts:
    """What the holder of a wake wants done in its room, in order."""

    ref: Ref
    fence: int
    seen: int
    items: tuple[ActInRoom | HoldAct, ...]
    company: str = ""
    """Empty: only servers hold wakes."""

    @property
    def size(self) -> int:
        return sum(len(getattr(item.act, "text", "")) for item in self.items)


@dataclass(frozen=True, slots=True)
class Stopped:
    """Somebody stopped the agent, its company or the room: what was not done by then is not done now."""

    why: str


def _keys(row: Acts) -> tuple[str, ...]:
    return tuple(f"address/{row.ref.execution}/{item.address}" for item in row.items)


@operation(keys=_keys)
def act_in_room(tx: Tx, rows: Sequence[Acts]) -> Steps[News | Stopped | LeaseLost]:
    """Do each act and record it, if the fence is still the holder's. What is recorded is not done again.

    What is asked for after a cancel is refused, as is what cannot or may not be done: the record says so, and the wake
    goes on. What needs a yes is not done: the record says whose, and the wake asks for it.
    """
    yield [ref for row in rows for ref in (row.ref, *(room_ref(item.room) for item in row.items))]
    results: list[News | Stopped | LeaseLost] = []
    for row in rows:
        execution = held_by(tx, row)
        if execution is None or execution.ended:
            results.append(lost(row.ref))
            continue
        recorded = {event["address"] for event in news(tx, execution, row.seen).events if event["kind"] in ASKED}
        left = (item for item in row.items if item.address not in recorded)
        stopped = next((said for item in left if (said := _act(tx, execution, item)) is not None), None)
        results.append(stopped or news(tx, execution, row.seen))
    return results


def _act(tx: Tx, execution: ExecutionRow, item: ActInRoom | HoldAct) -> Stopped | None:
    if isinstance(item, HoldAct):
        _hold(tx, execution, item)
        return None
    if execution.state == states.Execution.CANCELLING:
        done = Conflict("the wake was cancelled before.", code="cancelled")
    else:
        done = perform(tx, item.room, item.actor, item.act, word_on(tx, execution, item))
    value: dict[str, Any]
    match done:
        case Written():
            value = {"id": done.id, "seq": done.seq, "created": done.created, "woken": list(done.woken)}
        case tuple():
            value = {"held": [asdict(hold) for hold in done]}
        case Conflict() if done.code == STOPPED:
            return Stopped(done.message)
        case _:
            refuse(tx, item.room, item.actor, item.act, done)
            value = {"refused": done.code, "why": done.message}
    tx.append(execution, Kind.STEP_RECORDED, item.address, item.digest, codec.encode({"value": value}))
    return None


def _hold(tx: Tx, execution: ExecutionRow, item: HoldAct) -> None:
    """Ask for a yes, and say so in the ledger."""
    open_hold(tx, execution, item)
    ledger = tx.execution(item.room)
    if ledger is not None:
        facts = {
            "decision": "held",
            "act": type(item.act).__name__,
            "approval": item.id,
            "for": item.hold.company,
            "rule": item.hold.rule,
        }
        note(tx, ledger, item.actor, RoomKind.HELD, facts=facts)
