"""Who is in a room, and whom a name in it means. Companies are members, and agents of companies that are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never

from perdure.core import states
from perdure.core.codec import Json
from perdure.core.rooms import (
    MAX_AGENTS,
    MAX_COMPANIES,
    Actor,
    Invite,
    Join,
    Leave,
    PutAgent,
    RemoveAgent,
    RoomKind,
    mentions,
)
from perdure.errors import Conflict, InvalidInput, LimitExceeded, NotFound, PerdureError
from perdure.store.protocol import Reads, Row
from perdure.store.tx import Tx


class Member(NamedTuple):
    """A company, or an agent of one, that is in a room."""

    company: str
    name: str
    """Of the agent; empty for the company."""
    definition: str = ""
    on_crash: str = ""


@dataclass(frozen=True, slots=True)
class Changed:
    """What the ledger says of a change."""

    kind: RoomKind
    about: str = ""
    digest: str = ""
    facts: Mapping[str, Json] = field(default_factory=dict[str, Json])


def missing_room(room: str) -> NotFound:
    """Say that a room is not there: the same words, whether there is none or it is others' alone."""
    return NotFound(f"there is no room {room[:80]}. `perdure rooms list` shows yours.", room=room[:80])


def standing(reads: Reads | Tx, room: str, company: str, name: str = "") -> states.Membership | None:
    """Return how a company, or an agent of it, stands to a room; None for who is not in it and not invited."""
    found = reads.row("room_member", room=room, company=company, name=name)
    return None if found is None or found["state"] == states.Membership.GONE else states.Membership(found["state"])


def seated(tx: Tx, wanted: Iterable[tuple[str, str]]) -> list[str]:
    """Return the rooms, of rooms and companies, that are there for the company: the ones that may be locked for it.

    For any other company, locking a room would wait for those who write in it, and so tell that there is one.
    """
    found: list[str] = []
    for room, company in dict.fromkeys(wanted):
        tx.speak_for(company)
        if tx.row("room_seat", room=room, company=company) is not None:
            found.append(room)
    return found


def find_member(tx: Tx, room: str, text: str) -> Member | InvalidInput:
    """Return whom `company` or `company/agent` means."""
    company, name = names_in(text)
    found = tx.row("room_member", room=room, company=company, name=name)
    if found is not None and found["state"] == states.Membership.JOINED:
        return _member(found)
    return InvalidInput(
        f"{text!r:.80} is nobody in room {room}: name a company in it, or one of its agents as `company/agent`. "
        f"`perdure rooms show {room}` lists them.",
        code="no_such_member",
    )


def names_in(member: str) -> tuple[str, str]:
    """Return the company and the agent that a text names, as no company has a `/` in its name."""
    company, _, name = member.partition("/")
    return company, name


def targets(tx: Tx, room: str, actor: Actor, to: Sequence[str], text: str) -> list[Member] | InvalidInput:
    """Return whom a message is meant for: whom it is addressed to, and the agents that its text mentions.

    An address that means nobody is refused; `@something` in a text may be anything, and is then no mention.
    """
    found: list[Member] = []
    for one in to:
        member = find_member(tx, room, one)
        if isinstance(member, InvalidInput):
            return member
        found.append(member)
    if names := mentions(text):
        agents: dict[str, list[Member]] = {}
        for one in (_member(row) for row in tx.rows("room_members", room=room) if _awake(row)):
            agents.setdefault(one.name, []).append(one)
        found += [one for name in names if (one := _mentioned(agents, actor, name)) is not None]
    return list(dict.fromkeys(found))


def _awake(row: Row) -> bool:
    return bool(row["name"]) and row["state"] == states.Membership.JOINED


def _mentioned(agents: Mapping[str, Sequence[Member]], actor: Actor, name: str) -> Member | None:
    """Return the agent of that name; of several, the one of the author's own company; of several others, none."""
    company, _, short = name.rpartition("/")
    named = [one for one in agents.get(short, ()) if company in ("", one.company)]
    own = [one for one in named if one.company == actor.company]
    if len(named) == 1:
        return named[0]
    return own[0] if own else None


def _member(row: Row) -> Member:
    return Member(row["company"], row["name"], row["definition"], row["on_crash"])


def change_member(
    tx: Tx, room: str, actor: Actor, act: Invite | Join | Leave | PutAgent | RemoveAgent
) -> Changed | PerdureError | None:
    """Change who is in a room; None if it was so before."""
    match act:
        case Invite(company):
            return _invite(tx, room, actor, company)
        case Join():
            return _move(tx, room, actor, "join", RoomKind.JOINED)
        case Leave():
            return _leave(tx, room, actor)
        case PutAgent():
            return _put_agent(tx, room, actor, act)
        case RemoveAgent(name):
            known = tx.row("room_member", room=room, company=actor.company, name=name)
            if known is None:
                return NotFound(f"{actor.company} has no agent {name!r} in room {room}.", agent=name)
            if known["state"] == states.Membership.GONE:
                return None
            put_member(tx, room, actor, Member(actor.company, name), states.Membership.GONE)
            return Changed(RoomKind.AGENT_REMOVED, name)
        case _:
            assert_never(act)


def _invite(tx: Tx, room: str, actor: Actor, company: str) -> Changed | PerdureError | None:
    found = tx.row("room", room=room)
    if found is None or found["company"] != actor.company:
        return Conflict(f"only the host of room {room} may invite companies to it.", code="not_the_host")
    if standing(tx, room, company) is not None:
        return None
    if len(tx.rows("room_companies", room=room)) >= MAX_COMPANIES:
        return LimitExceeded(
            f"room {room} has {MAX_COMPANIES} companies, the most that one may have. Make another room.",
            code="too_many_companies",
            limit=MAX_COMPANIES,
        )
    tx.run("give_room_seat", room=room, company=company)
    put_member(tx, room, actor, Member(company, ""), states.Membership.INVITED)
    return Changed(RoomKind.INVITED, company)


def _move(tx: Tx, room: str, actor: Actor, event: str, kind: RoomKind) -> Changed | None:
    state = standing(tx, room, actor.company)
    if state is None or not states.allowed(states.MEMBERSHIP_TABLE, state, event):
        return None
    after = states.Membership(states.move(states.MEMBERSHIP_TABLE, state, event))
    put_member(tx, room, actor, Member(actor.company, ""), after)
    return Changed(kind)


def _leave(tx: Tx, room: str, actor: Actor) -> Changed | PerdureError | None:
    found = tx.row("room", room=room)
    if found is not None and found["company"] == actor.company:
        return Conflict(f"{actor.company} is the host of room {room} and cannot leave it.", code="host_stays")
    gone = states.Membership.GONE
    tx.run("remove_room_agents", room=room, company=actor.company, state=gone, by=actor.name, now_ms=tx.now_ms)
    return _move(tx, room, actor, "leave", RoomKind.LEFT)


def _put_agent(tx: Tx, room: str, actor: Actor, act: PutAgent) -> Changed | LimitExceeded | None:
    known = tx.row("room_member", room=room, company=actor.company, name=act.name)
    new = Member(actor.company, act.name, act.definition, act.on_crash)
    there = known is not None and known["state"] == states.Membership.JOINED
    if there and known is not None and _member(known) == new:
        return None
    count = tx.row("count_room_agents", room=room, company=actor.company)
    if not there and count is not None and count["n"] >= MAX_AGENTS:
        return LimitExceeded(
            f"{actor.company} has {MAX_AGENTS} agents in room {room}, the most that a company may have in one. Take "
            "one out first.",
            code="too_many_agents",
            limit=MAX_AGENTS,
        )
    scope = {"company": actor.company, "digest": act.definition, "agent": act.name}
    tx.run("insert_definition", **scope, spec=act.spec, now_ms=tx.now_ms)
    put_member(tx, room, actor, new, states.Membership.JOINED)
    return Changed(RoomKind.AGENT_REGISTERED, act.name, act.definition, {"on_crash": act.on_crash})


def put_member(tx: Tx, room: str, actor: Actor, member: Member, state: states.Membership) -> None:
    """Write down how a company or an agent stands to a room from now on."""
    tx.run(
        "put_room_member",
        room=room,
        company=member.company,
        name=member.name,
        state=state,
        definition=member.definition,
        on_crash=member.on_crash,
        by=actor.name,
        now_ms=tx.now_ms,
    )
    if state == states.Membership.GONE and not member.name:  # last of all: from here on the room is not there
        tx.run("take_room_seat", room=room, company=member.company)
