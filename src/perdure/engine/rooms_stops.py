"""Have an agent, a company or a whole room do nothing for now, and let them go on.

A stop is a row, read by the transaction of every act and before every request to a model. The wakes that it holds are
paused with it, so that no worker is given their calls, or else when they meet it. They are remembered: what they have
done stays, and when the stop is lifted they go on where they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perdure.core import states
from perdure.core.ids import shard_of
from perdure.core.room_views import StopView
from perdure.core.rooms import Actor, RoomKind, Stop
from perdure.engine.record import held_by, lost
from perdure.engine.rooms_ledger import note
from perdure.engine.rooms_members import missing_room, names_in, seated, standing
from perdure.engine.signal import pause, resume
from perdure.engine.wake import hold_back, let_go, put_ready
from perdure.errors import Conflict, InvalidInput, LeaseLost, PerdureError
from perdure.store.operation import Steps, operation
from perdure.store.protocol import EVERY_COMPANY, Reads, Ref, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

STOPPED = "stopped"
"""Why a wake was paused, and the code of what is refused to people meanwhile."""
LOOKED_AT = 1_000
"""The newest wakes of a room, which a stop pauses itself. Older ones that still go on meet it."""


class Whom(NamedTuple):
    """Whom a stop holds: an agent, a company, or with neither the room."""

    company: str = ""
    agent: str = ""

    def __str__(self) -> str:
        return f"{self.company}/{self.agent}" if self.agent else self.company or "the room"


@dataclass(frozen=True, slots=True)
class Start:
    """Lift a stop."""

    room: str
    actor: Actor
    member: str
    """As it was named when it was stopped."""


@dataclass(frozen=True, slots=True)
class Started:
    """It is lifted."""

    seq: int
    """0: there was none."""
    went_on: int
    left: int
    """Wakes that are still to go on: ask again."""


@dataclass(frozen=True, slots=True)
class HaltWake:
    """A holder's word that its wake met a stop or a budget."""

    ref: Ref
    fence: int
    room: str
    whose: Whom
    why: str
    message: str
    company: str = ""
    """Empty: only servers hold wakes."""


def stop_on(reads: Reads | Tx, room: str, company: str, agent: str) -> str:
    """Say what keeps a member from acting, or nothing."""
    row = reads.row("stop_on", room=room, company=company, agent=agent)
    if row is None:
        return ""
    why = f": {row['reason']}" if row["reason"] else ""
    whom = Whom(row["company"], row["agent"])
    by = f"{row['by_company']}/{row['by_name']}{why}"
    if row["everywhere"]:
        return f"{whom} was stopped in all rooms by {by}. `perdure companies start {whom}` lets it go on."
    member = "" if whom == Whom() else f" {whom}"
    return f"{whom} was stopped by {by}. `perdure rooms start {room}{member}` lets it go on."


def stop(tx: Tx, room: ExecutionRow, actor: Actor, act: Stop) -> Whom | PerdureError | None:
    """Stop somebody; None if they were. What the host stops takes the place of what the company itself had stopped."""
    whom = _whom(tx, room.id, actor, act.member)
    if not isinstance(whom, Whom):
        return whom
    given = {"room": room.id, "company": whom.company, "agent": whom.agent}
    known = tx.row("room_stop", **given)
    if known is not None and known["by_company"] != actor.company and _hosts(tx, room.id, actor):
        tx.run("delete_stop", **given)
    by = {"by_company": actor.company, "by_name": actor.name}
    return whom if tx.run("put_stop", **given, **by, reason=act.reason, now_ms=tx.now_ms) else None


def _hosts(tx: Tx, room: str, actor: Actor) -> bool:
    found = tx.row("room", room=room)
    return found is not None and found["company"] == actor.company


def live_wakes(tx: Tx, room: str) -> list[Row]:
    """Return the claims of wakes that have not ended. The transaction speaks for somebody in the room."""
    claims = tx.rows("room_wakes", room=room, limit=LOOKED_AT)
    found = tx.named("states_of", {one["execution"]: shard_of(one["execution"]) for one in claims})
    live = {one["id"] for one in found if one["state"] not in states.TERMINAL}
    return [one for one in claims if one["execution"] in live]


def halt_all(tx: Tx, ledger: ExecutionRow, by: str) -> None:
    """Pause the wakes in a room that a stop holds now, of those that are locked. One that is owned meets it then."""
    tx.speak_for(EVERY_COMPANY)
    for one in tx.rows("room_wakes", room=ledger.id, limit=LOOKED_AT):
        execution, whose = tx.execution(one["execution"]), Whom(one["company"], one["agent"])
        if execution is None or execution.state == states.Execution.PAUSED:
            continue
        if (why := stop_on(tx, ledger.id, *whose)) and not isinstance(pause(tx, execution, why, by), Conflict):
            _remember(tx, execution, ledger, whose, STOPPED)


def _whom(tx: Tx, room: str, actor: Actor, member: str) -> Whom | PerdureError:
    """Return whom a name means, if this actor may stop and start them: of its own company, or as host."""
    if actor.kind == "agent":
        return Conflict("agents stop and start nobody.", code="not_allowed")
    host = _hosts(tx, room, actor)
    if not member:
        return Whom() if host else Conflict(f"only the host of room {room} may stop or start it.", code="not_the_host")
    whom = Whom(*names_in(member))
    if not whom.company or tx.row("room_member", room=room, company=whom.company, name=whom.agent) is None:
        return InvalidInput(f"{member!r:.80} is nobody in room {room}.", code="no_such_member")
    if host or whom.company == actor.company:
        return whom
    return Conflict(f"only {whom.company} and the host may stop or start {member}.", code="not_yours")


@operation()
def start_in_room(tx: Tx, rows: Sequence[Start]) -> Steps[Started | PerdureError]:
    """Lift stops, and let the wakes go on that they had paused. Asked again, it lets those go on that are left."""
    found = [one for row in rows for one in _halted(tx, row)]
    yield [
        *(Ref(shard_of(room), room) for room in seated(tx, ((row.room, row.actor.company) for row in rows))),
        *(Ref(one["shard"], one["execution"]) for one in found),
    ]
    return [_start(tx, row) for row in rows]


def _halted(tx: Tx, row: Start) -> list[Row]:
    """Return the wakes that a stop has paused and that whoever says start may let go on: its own; the host all."""
    tx.speak_for(row.actor.company)
    return tx.rows("halted_in", room=row.room)


def _start(tx: Tx, row: Start) -> Started | PerdureError:
    tx.speak_for(row.actor.company)
    ledger = tx.execution(row.room)
    # Who is in it is looked for first, also in a room that is not there: else the work would tell which rooms are.
    if standing(tx, row.room, row.actor.company) != states.Membership.JOINED or ledger is None:
        return missing_room(row.room)
    whom = _whom(tx, row.room, row.actor, row.member)
    if not isinstance(whom, Whom):
        return whom
    given = {"room": row.room, "company": whom.company, "agent": whom.agent}
    known = tx.row("room_stop", **given)
    if known is not None and known["by_company"] != row.actor.company and not _hosts(tx, row.room, row.actor):
        return not_theirs_to_lift(str(whom), known)
    lifted = tx.run("delete_stop", **given)
    seq = note(tx, ledger, row.actor, RoomKind.STARTED, str(whom)) if lifted else 0
    went_on = left = 0
    for one in _halted(tx, row):
        if stop_on(tx, row.room, one["company"], one["agent"]):
            continue
        if tx.execution(one["execution"]) is None:
            left += _is_there(tx, one)
        else:
            went_on += let_go_on(tx, one["execution"], row.actor.name)
    return Started(seq, went_on, left)


def not_theirs_to_lift(whom: str, known: Row) -> Conflict:
    """Say that somebody else has stopped them: whoever is stopped could else go on as they like."""
    by = f"{known['by_company']}/{known['by_name']}"
    return Conflict(f"{whom} was stopped by {by}, and {known['by_company']} alone lets it go on.", code="not_yours")


def _is_there(tx: Tx, one: Row) -> bool:
    """Say whether an execution that was not locked exists; one that was deleted is forgotten."""
    return bool(tx.named("states_of", {one["execution"]: one["shard"]}))


def let_go_on(tx: Tx, execution: str, by: str) -> bool:
    """Resume a wake that was paused and is locked here; whoever resumed or cancelled it before was faster."""
    row = tx.execution(execution)
    if row is None:
        return False
    tx.run("forget_halted", shard=row.shard, execution=execution)
    return not isinstance(resume(tx, row, by), Conflict)


@operation()
def halt_wake(tx: Tx, rows: Sequence[HaltWake]) -> Steps[LeaseLost | None]:
    """Pause a wake for what it met, if that still is there; else let whoever comes first go on with it at once."""
    yield [ref for row in rows for ref in (row.ref, Ref(shard_of(row.room), row.room))]
    return [_halt(tx, row) for row in rows]


def _halt(tx: Tx, row: HaltWake) -> LeaseLost | None:
    execution, ledger = held_by(tx, row), tx.execution(row.room)
    if execution is None or ledger is None:
        return lost(row.ref)
    if execution.ownership != states.Ownership.OWNED:
        return None  # said before
    tx.speak_for(EVERY_COMPANY)  # its company may have left the room, and a stop holds it all the same
    over = row.why == STOPPED and not stop_on(tx, row.room, *row.whose)
    if over or execution.state == states.Execution.CANCELLING:
        let_go(tx, execution)
        execution.ownership = states.Ownership.READY
        put_ready(tx, execution)
        return None
    _pause(tx, execution, ledger, row)
    let_go(tx, execution)
    return None


def _pause(tx: Tx, execution: ExecutionRow, ledger: ExecutionRow, row: HaltWake) -> None:
    reason = states.Reason.USER if row.why == STOPPED else states.Reason.QUOTA
    if not hold_back(tx, execution, "pause", reason, row.message):
        return  # paused before
    _remember(tx, execution, ledger, row.whose, row.why)


def _remember(tx: Tx, execution: ExecutionRow, ledger: ExecutionRow, whose: Whom, why: str) -> None:
    company, agent = whose
    scope = {"room": ledger.id, "company": company, "agent": agent}
    tx.run("insert_halted", **scope, shard=execution.shard, execution=execution.id, why=why)
    actor = Actor(company, agent, "agent", execution.id)
    note(tx, ledger, actor, RoomKind.WAKE_HALTED, facts={"decision": "stopped", "why": why})


def stops_view(reads: Reads, room: str) -> list[StopView]:
    """Return all that is stopped. The caller has seen that the asking company is in the room."""
    return [
        StopView(
            str(Whom(row["company"], row["agent"])),
            f"{row['by_company']}/{row['by_name']}",
            row["reason"],
            row["at_ms"],
            bool(row["everywhere"]),
        )
        for row in reads.rows("stops_in", room=room, joined=states.Membership.JOINED)
    ]
