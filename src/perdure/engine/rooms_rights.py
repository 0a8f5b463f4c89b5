"""What may be done in a room, judged where it is done: in the transaction that writes its rows, under the room's lock.

What is held becomes an approval of the company whose yes it is, bound to the act as it was shown, and used up by the
transaction that does the act.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, assert_never, cast

from perdure.core import codec, states
from perdure.core.approval import approval_to_text
from perdure.core.codec import Json
from perdure.core.events import Kind
from perdure.core.items import ActInRoom, HoldAct
from perdure.core.rights import Deed, Hold, Refused, Rights, in_turn, judge, rights_from_text
from perdure.core.room_views import RightsView
from perdure.core.rooms import (
    EVERYBODY,
    ROOM_ACT,
    Act,
    Actor,
    CallTool,
    ChangeTask,
    EndWake,
    Invite,
    Join,
    Leave,
    OpenTask,
    Post,
    PutAgent,
    Remember,
    RemoveAgent,
    SetRights,
    ShareFile,
    Stop,
)
from perdure.engine.approvals import call_digest
from perdure.engine.rooms_members import find_member, standing, targets
from perdure.engine.rooms_stops import STOPPED, stop_on
from perdure.errors import Conflict, PerdureError
from perdure.store.protocol import EVERY_COMPANY, Reads, Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx

Held = tuple[Hold, ...]
Ask = Callable[[Held], "str | Held | Conflict"]
"""Finds out whether what an act needs was given: on whose word, or what is still needed, or that it was refused."""
_UNSHOWN = ("key", "salt")
"""Fields of an act that say nothing to whoever is asked."""


def permitted(tx: Tx, room: ExecutionRow, actor: Actor, act: Act, ask: Ask | None) -> Actor | Held | PerdureError:
    """Return in whose name, and on whose word, an act is done; or what it still needs, or why it may not be.

    Who is asked is shown the act, and so is told of it: the owners of lines that they may not read are asked before.
    """
    shown: set[str] = set()
    while True:
        deeds = _deeds_of(tx, room.id, actor, act, shown)
        needed = _needed(tx, room, actor, deeds)
        if isinstance(needed, PerdureError) or not actor.secrets or shown.issuperset(one.company for one in needed):
            return _on_word(actor, deeds, needed, ask)
        shown.update(one.company for one in needed)


def allowed(tx: Tx, room: ExecutionRow, actor: Actor, deeds: Sequence[Deed]) -> Actor | Held | PerdureError:
    """As `permitted`, of what rules see in what people do, for which nobody is asked."""
    return _on_word(actor, deeds, _needed(tx, room, actor, deeds), None)


def _needed(tx: Tx, room: ExecutionRow, actor: Actor, deeds: Sequence[Deed]) -> Held | PerdureError:
    """Return the yeses that deeds need, in the order in which they are asked for; or why they may not be done."""
    if not deeds:
        return ()
    if stopped := stop_on(tx, room.id, actor.company, actor.name if actor.kind == "agent" else ""):
        return Conflict(stopped, code=STOPPED)
    found = tx.row("room", room=room.id)
    host, documents = found["company"] if found is not None else "", _documents(tx, room.id, actor.company)
    holds: list[Hold] = []
    for deed in deeds:
        verdict = judge(deed, host, documents)
        if isinstance(verdict, Refused):
            return _not_allowed(deed, verdict)
        holds += [hold for hold in verdict if not any(_same_word(hold, one) for one in holds)]
    if gone := next((h for h in holds if standing(tx, room.id, h.company) != states.Membership.JOINED), None):
        return _not_allowed(deeds[0], Refused(gone.rule, f"{gone.company}, whose yes it needs, is not in the room"))
    turns = in_turn(holds, actor.company, actor.secrets)
    return _not_allowed(deeds[0], turns) if isinstance(turns, Refused) else turns


def _on_word(
    actor: Actor, deeds: Sequence[Deed], needed: Held | PerdureError, ask: Ask | None
) -> Actor | Held | PerdureError:
    """Look whether the yeses that are needed were given."""
    if isinstance(needed, PerdureError):
        return needed
    if not needed:
        return actor
    if ask is None:
        return _asks_nobody(deeds[0], needed)
    word = ask(needed)
    return replace(actor, word=word) if isinstance(word, str) else word


def _same_word(one: Hold, other: Hold) -> bool:
    return (one.company, one.approvers, one.quorum) == (other.company, other.approvers, other.quorum)


def _asks_nobody(deed: Deed, holds: Sequence[Hold]) -> Conflict:
    who = ", ".join(hold.company for hold in holds)
    return Conflict(
        f"{deed.act} needs a yes of {who} ({holds[0].rule}), and only what an agent does waits for one. Have somebody "
        "do it whose right it is, or change the rule.",
        code="needs_approval",
        rule=holds[0].rule,
    )


def _documents(tx: Tx, room: str, company: str) -> dict[str, Rights]:
    """Return what all companies said. It is judged by; no company reads another's."""
    tx.speak_for(EVERY_COMPANY)
    rows = tx.rows("rights_in", room=room)
    tx.speak_for(company)
    return {row["company"]: rights_from_text(row["document"]) for row in rows}


def _not_allowed(deed: Deed, refused: Refused) -> Conflict:
    why = f": {refused.why}" if refused.why else ""
    return Conflict(
        f"{deed.company}/{deed.name} may not do this here: {deed.act} is refused by {refused.rule}{why}.",
        code="not_allowed",
        rule=refused.rule,
    )


def _deeds_of(tx: Tx, room: str, actor: Actor, act: Act, shown: set[str]) -> tuple[Deed, ...]:
    """Return an act as rules see it, which may be more than one thing; nothing for what rules are not about.

    `shown`: companies that are asked, and so are told of it, too.
    """
    there = _there(tx, room) if actor.secrets else set[str]()
    everybody = _private(actor, there)
    match act:
        case Post(text, to):
            meant = targets(tx, room, actor, to, text)
            names = [] if isinstance(meant, PerdureError) else [_full(one.company, one.name) for one in meant]
            return (_deed("post", actor, tuple(dict.fromkeys((*to, *names))), everybody),)
        case OpenTask(_, to):
            member = find_member(tx, room, to)
            company = "" if isinstance(member, PerdureError) else member.company
            return (replace(_deed("create_task", actor, (to,), everybody), for_company=company),)
        case ChangeTask(_, verb, result):
            return (_deed("update_task", actor, (verb,), everybody if result else ()),)
        case Remember(_, readers):
            private = everybody if EVERYBODY in readers else _private(actor, {actor.company, *readers, *shown})
            return (_deed("remember", actor, readers, private),)
        case ShareFile():
            return (_deed("share_file", actor, (), everybody),)
        case CallTool(tool, args):
            call = replace(_deed("call_tool", actor, (tool,), everybody), amount=amount_in(args))
            return (call, replace(call, act="spend")) if call.amount else (call,)
        case Invite() | Join() | Leave() | PutAgent() | RemoveAgent() | SetRights() | Stop() | EndWake():
            return ()
        case _:
            assert_never(act)


def deed_of_file(actor: Actor) -> Deed:
    """Return, as rules see it, that a person puts a file where everybody in the room may read it."""
    return _deed("share_file", actor, (), ())


def _there(tx: Tx, room: str) -> set[str]:
    """Return the companies that read what all in a room may read, now: also those that came since a wake read it."""
    return {row["company"] for row in tx.rows("room_companies", room=room)}


def _private(actor: Actor, told: set[str]) -> tuple[str, ...]:
    """Return whose lines are given away where these are told what the actor may have of them."""
    return tuple(dict.fromkeys(owner for owner, may in actor.secrets if not told <= {owner, *may}))


def amount_in(args: Mapping[str, Json]) -> float:
    """Return what a call spends, in US dollars: its argument `amount`. One that is no number is above all amounts."""
    given = args.get("amount")
    if given is None:
        return 0.0
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        return math.inf
    try:
        return abs(float(given))
    except OverflowError:  # a whole number that no float holds
        return math.inf


def _full(company: str, name: str) -> str:
    return f"{company}/{name}" if name else company


def _deed(act: str, actor: Actor, to: Sequence[str], private: tuple[str, ...]) -> Deed:
    agent = actor.kind == "agent"
    return Deed(act, actor.company, actor.name, agent, tuple(to), steered=actor.steered, private=private)


# -- what is held ------------------------------------------------------------------------------------------------------


def shown_of(room: str, actor: Actor, act: Act, hold: Hold) -> tuple[str, dict[str, Any]]:
    """Return what is shown to whoever is asked, as a tool's name and arguments. The approval is bound to all of it."""
    told = {one.name: getattr(act, one.name) for one in fields(act) if one.name not in _UNSHOWN}
    given: dict[str, Any] = {
        "room": room,
        "by": _full(actor.company, actor.name),
        "woken_by": actor.cause,
        "asked_by": actor.asked_by,
        **told,
        "steered_by": actor.steered,
        "hold": asdict(hold),
    }
    return f"{ROOM_ACT}{type(act).__name__}", cast("dict[str, Any]", codec.to_json(given, "act"))


def open_hold(tx: Tx, execution: ExecutionRow, item: HoldAct) -> None:
    """Open the approval, which is the other company's where it is its yes. Without it, a rejection is on record."""
    tool, args = shown_of(item.room, item.actor, item.act, item.hold)
    rules = item.hold.rules
    expires_ms = tx.now_ms + rules.expires_ms
    facts = {"id": item.id, "kind": "approval", "tool": tool, "args": args, "expires_ms": expires_ms}
    seq = tx.append(execution, Kind.WAIT_OPENED, item.address, item.digest, facts)
    scope = {"shard": execution.shard, "execution": execution.id, "address": item.address}
    tx.run(
        "insert_hold",
        **scope,
        act=type(item.act).__name__,
        id=item.id,
        company=item.hold.company,
        digest=call_digest(tool, args, item.address),
        opened_seq=seq,
        now_ms=tx.now_ms,
        rules=approval_to_text(rules),
        expires_ms=expires_ms,
    )
    tx.run("set_expiry", **scope, due_ms=expires_ms)


def word_on(tx: Tx, execution: ExecutionRow, item: ActInRoom) -> Ask:
    """Return what looks for the yes to an act among those that were asked for, and uses it up."""

    def ask(holds: Held) -> str | Held | Conflict:
        scope = {"shard": execution.shard, "execution": execution.id}
        asked = [row for one in item.approvals if (row := tx.row("waitpoint", **scope, address=one)) is not None]
        if (no := next((row for row in asked if row["decision"] not in (None, "approve")), None)) is not None:
            return _said_no(no)
        said = [row for row in asked if row["decision"] == "approve"]
        found = [_given(item, said, hold) for hold in holds]
        given = [row for row in found if row is not None]
        if len(given) < len(holds):
            return holds
        for row in given:
            if not tx.run("consume_approval", **scope, address=row["address"], digest=row["digest"], now_ms=tx.now_ms):
                return Conflict(f"approval {row['id']} was used before.", code="not_approved")
        return ", ".join(f"{row['company']}/{row['decided_by'] or 'somebody'}" for row in given)

    return ask


def _given(item: ActInRoom, asked: Sequence[Row], hold: Hold) -> Row | None:
    """Return the yes to just this act, by just this rule and those who may say it now."""
    tool, args = shown_of(item.room, item.actor, item.act, hold)
    return next((row for row in asked if row["digest"] == call_digest(tool, args, row["address"])), None)


def _said_no(row: Row) -> Conflict:
    if row["state"] == states.Waitpoint.EXPIRED:
        return Conflict(f"approval {row['id']} of {row['company']} expired.", code="hold_expired")
    return Conflict(
        f"approval {row['id']}: {row['company']}/{row['decided_by'] or 'somebody'} said no.", code="hold_rejected"
    )


# -- documents ---------------------------------------------------------------------------------------------------------


def set_rights(tx: Tx, room: ExecutionRow, actor: Actor, act: SetRights) -> int | None:
    """Keep what a company says; return its revision. None: it said just that before."""
    scope = {"room": room.id, "company": actor.company}
    known = tx.row("rights_of", **scope)
    if known is not None and known["document"] == act.document:
        return None
    revision = 1 if known is None else known["revision"] + 1
    tx.run("put_rights", **scope, revision=revision, document=act.document, by=actor.name, now_ms=tx.now_ms)
    return revision


def rights_view(reads: Reads, company: str, room: str) -> RightsView:
    """Return what a company itself said. The caller has seen that it is in the room."""
    row = reads.row("rights_of", room=room, company=company)
    if row is None:
        return RightsView(room, company, 0, {"rules": [], "roles": {}}, "", 0)
    document: dict[str, Json] = codec.decode(row["document"])
    return RightsView(room, company, row["revision"], document, row["changed_by"], row["changed_ms"])
