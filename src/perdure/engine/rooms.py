"""Make rooms, and let members write in them. Each act and its line in the room's ledger are one transaction.

A room's ledger is the log of a row in `executions` that nobody owns: see docs/decisions/0010-rooms.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core import codec, states
from perdure.core.events import LOG_FORMAT
from perdure.core.ids import shard_of
from perdure.core.rooms import LEDGER_COMPANY, Act, Actor, RoomKind, Stop, Written
from perdure.engine.rooms_acts import perform
from perdure.engine.rooms_ledger import note
from perdure.engine.rooms_members import Member, put_member, seated
from perdure.engine.rooms_stops import live_wakes
from perdure.errors import InternalError, PerdureError
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Ref
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


@dataclass(frozen=True, slots=True)
class MakeRoom:
    """A new room. Its id comes from the caller, so that making it twice makes one."""

    id: str
    name: str
    actor: Actor
    """Whose company is the host."""


@dataclass(frozen=True, slots=True)
class Write:
    """One act of one member. Checked by the caller."""

    room: str
    actor: Actor
    act: Act

    @property
    def size(self) -> int:
        return (
            len(getattr(self.act, "text", ""))
            + len(getattr(self.act, "spec", ""))
            + len(getattr(self.act, "document", ""))
        )


def room_ref(room: str) -> Ref:
    """Return what is locked to write in a room."""
    return Ref(shard_of(room), room)


@operation()
def make_room(tx: Tx, rows: Sequence[MakeRoom]) -> Steps[Written]:
    """Create rooms with their hosts as first members. The same again changes nothing."""
    yield [room_ref(row.id) for row in rows]
    made = {row.id: _make(tx, row) for row in sorted(rows, key=lambda row: row.id)}
    return [made[row.id] for row in rows]


def _make(tx: Tx, row: MakeRoom) -> Written:
    host = row.actor.company
    tx.speak_for(host)
    if not tx.run("insert_room", id=row.id, company=host, name=row.name, by=row.actor.name, now_ms=tx.now_ms):
        return Written(row.id, 0, created=False)
    tx.run("give_room_seat", room=row.id, company=host)
    put_member(tx, row.id, row.actor, Member(host, ""), states.Membership.JOINED)
    room = _ledger(tx, row.id)
    return Written(row.id, note(tx, room, row.actor, RoomKind.CREATED, facts={"name": codec.digest(row.name)}))


def _ledger(tx: Tx, room: str) -> ExecutionRow:
    """Begin the log of a room. It waits for ever, and nothing wakes it."""
    row = ExecutionRow(
        shard=shard_of(room),
        id=room,
        company=LEDGER_COMPANY,
        agent="",
        definition="",
        state=states.Execution.WAITING,
        ownership=states.Ownership.PARKED,
        log_format=LOG_FORMAT,
        created_ms=tx.now_ms,
        updated_ms=tx.now_ms,
    )
    tx.create(row)
    return row


@operation()
def write_in_room(tx: Tx, rows: Sequence[Write]) -> Steps[Written | PerdureError]:
    """Do what members ask for, in the order in which it came. To whoever is no member, the room is not there."""
    rooms = seated(tx, ((row.room, row.actor.company) for row in rows))
    yield [*(room_ref(room) for room in rooms), *(ref for row in rows for ref in _held(tx, row, rooms))]
    return [_write(tx, row) for row in rows]


def _held(tx: Tx, row: Write, rooms: Sequence[str]) -> list[Ref]:
    """Return the wakes that a stop may pause."""
    if not isinstance(row.act, Stop) or row.room not in rooms:
        return []
    tx.speak_for(row.actor.company)
    return [Ref(shard_of(one["execution"]), one["execution"]) for one in live_wakes(tx, row.room)]


def _write(tx: Tx, row: Write) -> Written | PerdureError:
    done = perform(tx, row.room, row.actor, row.act)
    if isinstance(done, tuple):  # nobody could be asked: it was refused in words
        raise InternalError(f"{type(row.act).__name__} was held without anybody to ask")
    return done
