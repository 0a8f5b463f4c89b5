"""Companies' keys, as whoever runs the server sees them and takes them back; and the stop of a company in all rooms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from perdure.core import states
from perdure.core.companies import CompanyStopped, CompanyView, KeyView
from perdure.core.credentials import hash_of
from perdure.core.ids import shard_of
from perdure.core.rooms import Actor, RoomKind
from perdure.engine.keys import KEYS
from perdure.engine.logins import LINK, SESSION
from perdure.engine.rooms import room_ref
from perdure.engine.rooms_ledger import note
from perdure.engine.rooms_stops import halt_all, let_go_on, live_wakes, not_theirs_to_lift, stop_on
from perdure.errors import Conflict, NotFound
from perdure.store.operation import Steps, operation
from perdure.store.protocol import EVERY_COMPANY, Reads, Ref, Row
from perdure.store.tx import Tx

ID = 12
"""Characters of a key's hash that it is named by."""


@dataclass(frozen=True, slots=True)
class RevokeKey:
    """A key that is to open nothing any more."""

    company: str
    id: str


@dataclass(frozen=True, slots=True)
class StopCompany:
    """Have a company do nothing in any room, or with `lift` let it go on."""

    company: str
    actor: Actor
    reason: str = ""
    lift: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """What one transaction came to."""

    told: CompanyStopped
    left: bool
    """Something of the company's came meanwhile: ask again."""


# -- keys --------------------------------------------------------------------------------------------------------------


def companies_view(reads: Reads) -> list[CompanyView]:
    """Return all companies of the store with their keys, in order."""
    rows = reads.rows("companies_with_keys", keys=KEYS)
    return [
        CompanyView(company, some[0]["company_ms"], tuple(_key(row) for row in some if row["hash"] is not None))
        for company, group in groupby(rows, key=itemgetter("company"))
        for some in [list(group)]
    ]


def key_view(reads: Reads, company: str, key: str) -> KeyView | Conflict:
    """Return a key of a company that was just added; a refusal if it was another's, or was revoked, before."""
    found = [row for row in reads.rows("keys_of", company=company, keys=KEYS) if row["hash"] == hash_of(key)]
    if not found or found[0]["revoked_ms"] is not None:
        return Conflict("this key was somebody's before: make a new one, of chance.", code="key_taken")
    return _key(found[0])


def _key(row: Row) -> KeyView:
    return KeyView(row["hash"][:ID], row["name"], row["created_ms"], row["revoked_ms"], row["prefix"])


@operation()
def revoke_key(tx: Tx, rows: Sequence[RevokeKey]) -> Steps[KeyView | NotFound]:
    """Take keys back, and end the browsers' sessions and links that act for whose they were. Again changes nothing."""
    yield ()
    return [_revoke(tx, row) for row in rows]


def _revoke(tx: Tx, row: RevokeKey) -> KeyView | NotFound:
    found = next((one for one in tx.rows("keys_of", company=row.company, keys=KEYS) if _is(one, row.id)), None)
    if found is None:
        return NotFound(
            f"company {row.company[:80]} has no key {row.id[:80]}. `perdure companies list` shows all.", key=row.id[:80]
        )
    if found["revoked_ms"] is not None:
        return _key(found)
    tx.run("revoke_key", hash=found["hash"], now_ms=tx.now_ms)
    tx.run("delete_logins_of", company=row.company, name=found["name"], link=LINK, session=SESSION)
    return replace(_key(found), revoked_ms=tx.now_ms)


def _is(row: Row, id: str) -> bool:
    return row["hash"][:ID] == id


# -- the stop ----------------------------------------------------------------------------------------------------------


@operation()
def stop_company(tx: Tx, rows: Sequence[StopCompany]) -> Steps[Stopped | Conflict]:
    """Stop companies in all rooms, or let them go on, and say so in the ledger of each of their rooms.

    What whoever runs the server has stopped a company does not let go on by itself (`not_yours`).
    All their rooms are locked, so no act of theirs is under way when a stop is committed. What they came into meanwhile
    is looked at when it is asked for again.
    """
    rooms = {row.company: _rooms(tx, row.company) for row in rows}
    wakes = [one for row in rows for one in (_halted(tx, row.company) if row.lift else _live(tx, row.company, rooms))]
    yield [
        *(room_ref(room) for some in rooms.values() for room in some),
        *(Ref(shard_of(one["execution"]), one["execution"]) for one in wakes),
    ]
    return [_let_go(tx, row) if row.lift else _stop(tx, row) for row in rows]


def _rooms(tx: Tx, company: str) -> list[str]:
    tx.speak_for(company)
    found = tx.rows("rooms_of", company=company, room="")
    return [row["id"] for row in found if row["state"] == states.Membership.JOINED]


def _halted(tx: Tx, company: str) -> list[Row]:
    tx.speak_for(company)
    return tx.rows("halted_of", company=company)


def _live(tx: Tx, company: str, rooms: Mapping[str, Sequence[str]]) -> list[Row]:
    tx.speak_for(company)
    return [one for room in rooms[company] for one in live_wakes(tx, room)]


def _stop(tx: Tx, row: StopCompany) -> Stopped:
    said = {"company": row.company, "by_company": row.actor.company, "by_name": row.actor.name, "reason": row.reason}
    new = tx.run("put_company_stop", **said, now_ms=tx.now_ms)
    if row.actor.company != row.company:
        new += tx.run("take_company_stop", **said, now_ms=tx.now_ms)
    told = _told(tx, row, bool(new), 0, left=False)
    for ledger in (tx.execution(room) for room in _rooms(tx, row.company)):
        if ledger is not None:
            halt_all(tx, ledger, f"{row.actor.company}/{row.actor.name}")
    return told


def _let_go(tx: Tx, row: StopCompany) -> Stopped | Conflict:
    known = tx.row("company_stop", company=row.company)
    if known is not None and row.actor.company == row.company != known["by_company"]:
        return not_theirs_to_lift(row.company, known)
    lifted = tx.run("delete_company_stop", company=row.company)
    went_on, left = 0, False
    for one in _halted(tx, row.company):
        tx.speak_for(EVERY_COMPANY)  # it may have left the room, and a stop there holds its wakes all the same
        if stop_on(tx, one["room"], one["company"], one["agent"]):
            continue
        if tx.execution(one["execution"]) is None:
            left |= bool(tx.named("states_of", {one["execution"]: shard_of(one["execution"])}))
        else:
            went_on += let_go_on(tx, one["execution"], row.actor.name)
    return _told(tx, row, bool(lifted), went_on, left)


def _told(tx: Tx, row: StopCompany, changed: bool, went_on: int, left: bool) -> Stopped:
    """Write it into the ledgers of the rooms that are locked, if anything has changed."""
    ledgers = [tx.execution(room) for room in _rooms(tx, row.company)]
    if changed:
        kind = RoomKind.STARTED if row.lift else RoomKind.STOPPED
        for ledger in ledgers:
            if ledger is not None:
                note(tx, ledger, row.actor, kind, row.company, facts={"everywhere": True})
    told = sum(ledger is not None for ledger in ledgers) if changed else 0
    return Stopped(CompanyStopped(row.company, changed, told, went_on), left or None in ledgers)
