"""What each act in a room does to its rows and its ledger. One function an act, whoever does it.

Runs under the lock of the room, so acts of one room follow each other. A refusal changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, assert_never

from perdure.core import codec, states
from perdure.core.codec import Json
from perdure.core.room_search import Source
from perdure.core.rooms import (
    EVERYBODY,
    MOST_HOPS,
    PRIVATE,
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
    RoomKind,
    SetRights,
    ShareFile,
    Stop,
    Written,
    written_id,
)
from perdure.engine.room_file_rows import share_text
from perdure.engine.room_search import index
from perdure.engine.rooms_ledger import again, note
from perdure.engine.rooms_members import change_member, find_member, missing_room, standing, targets
from perdure.engine.rooms_rights import Ask, Held, permitted, set_rights
from perdure.engine.rooms_stops import halt_all, stop
from perdure.engine.rooms_wakes import wake_all
from perdure.errors import Conflict, InvalidInput, NotFound, PerdureError
from perdure.store.protocol import Row
from perdure.store.rows import ExecutionRow
from perdure.store.tx import Tx


def perform(tx: Tx, room: str, actor: Actor, act: Act, ask: Ask | None = None) -> Written | Held | PerdureError:
    """Do one act in a room that the transaction has locked, if its rights allow it.

    `ask` finds the yes that it may need; without it, what needs one is refused.
    """
    tx.speak_for(actor.company)
    ledger = tx.execution(room)
    state = standing(tx, room, actor.company)
    if ledger is None or state is None or (state == states.Membership.INVITED and not isinstance(act, Join | Leave)):
        return missing_room(room)
    agent = bool(actor.execution) and not isinstance(act, EndWake)
    if agent and standing(tx, room, actor.company, actor.name) != states.Membership.JOINED:
        return Conflict(f"agent {actor.name!r} is not in room {room} any more.", code="not_a_member")
    allowed = permitted(tx, ledger, actor, act, ask)
    return _do(tx, ledger, allowed, act) if isinstance(allowed, Actor) else allowed


def _do(tx: Tx, ledger: ExecutionRow, actor: Actor, act: Act) -> Written | PerdureError:
    match act:
        case Post():
            return _post(tx, ledger, actor, act)
        case OpenTask():
            return _open_task(tx, ledger, actor, act)
        case ChangeTask():
            return _change_task(tx, ledger, actor, act)
        case Remember():
            return _remember(tx, ledger, actor, act)
        case EndWake(outcome, done, refused):
            facts: dict[str, Json] = {"outcome": outcome, "done": done, "refused": refused}
            return Written(ledger.id, note(tx, ledger, actor, RoomKind.WAKE_ENDED, facts=facts))
        case SetRights():
            return _set_rights(tx, ledger, actor, act)
        case Stop():
            return _stop(tx, ledger, actor, act)
        case ShareFile():
            return share_text(tx, ledger, actor, act)
        case CallTool(tool, _, call):
            return Written(call, note(tx, ledger, actor, RoomKind.TOOL_CALLED, tool, facts={"call": call}))
        case Invite() | Join() | Leave() | PutAgent() | RemoveAgent():
            return _membership(tx, ledger, actor, act)
        case _:
            assert_never(act)


def refuse(tx: Tx, room: str, actor: Actor, act: Act, why: PerdureError) -> None:
    """Say in the ledger that an agent declared what could not be done."""
    tx.speak_for(actor.company)
    ledger = tx.execution(room)
    if ledger is not None and standing(tx, room, actor.company) == states.Membership.JOINED:
        rule = str(why.details.get("rule", ""))
        facts = {"decision": "refused", "act": type(act).__name__, "why": why.code, **({"rule": rule} if rule else {})}
        seq = note(tx, ledger, actor, RoomKind.REFUSED, facts=facts)
        who = {"room": room, "company": actor.company, "agent": actor.name}
        tx.run("insert_refusal", **who, seq=seq, act=facts["act"], code=why.code, rule=rule, now_ms=tx.now_ms)


def _stop(tx: Tx, room: ExecutionRow, actor: Actor, act: Stop) -> Written | PerdureError:
    whom = stop(tx, room, actor, act)
    if whom is None:
        return Written(room.id, 0, created=False)
    if isinstance(whom, PerdureError):
        return whom
    seq = note(tx, room, actor, RoomKind.STOPPED, str(whom))
    halt_all(tx, room, f"{actor.company}/{actor.name}")
    return Written(room.id, seq)


def _set_rights(tx: Tx, room: ExecutionRow, actor: Actor, act: SetRights) -> Written | Conflict:
    if actor.kind == "agent":
        return Conflict("agents do not change rights.", code="not_allowed")
    revision = set_rights(tx, room, actor, act)
    if revision is None:
        return Written(room.id, 0, created=False)
    # No fingerprint of it: others read the ledger, and what a company says is short enough to be guessed.
    return Written(room.id, note(tx, room, actor, RoomKind.RIGHTS_SET, facts={"revision": revision}))


# -- messages and tasks ------------------------------------------------------------------------------------------------


def _post(tx: Tx, room: ExecutionRow, actor: Actor, act: Post) -> Written | PerdureError:
    id = _id("msg", room, actor, act.key)
    digest = codec.digest(act.text, list(act.to), act.thread)
    if (known := tx.row("room_message", room=room.id, id=id)) is not None:
        return again(known, digest, f"message key {act.key!r}")
    meant = targets(tx, room.id, actor, act.to, act.text)
    if isinstance(meant, PerdureError):
        return meant
    if act.thread and (lost := _unknown_about(tx, room.id, act.thread)) is not None:
        return lost
    addressed = sorted({f"{one.company}/{one.name}" if one.name else one.company for one in meant})
    facts = {"to": addressed, "thread": act.thread, **_unwoken(actor)}
    seq = note(tx, room, actor, RoomKind.POSTED, id, digest, facts=facts)
    tx.run(
        "insert_room_message",
        **_wrote(tx, room, actor, (id, seq, digest)),
        text=act.text,
        addressed=codec.encode(addressed),
        thread=act.thread,
    )
    index(tx, Source(room.id, actor.company, "message", id, seq), {0: act.text})
    return Written(id, seq, woken=wake_all(tx, room, actor, meant, id))


def _open_task(tx: Tx, room: ExecutionRow, actor: Actor, act: OpenTask) -> Written | PerdureError:
    id = _id("rtk", room, actor, act.key)
    digest = codec.digest(act.title, act.to, act.thread)
    if (known := tx.row("room_task", room=room.id, id=id)) is not None:
        return again(known, digest, f"task key {act.key!r}")
    meant = find_member(tx, room.id, act.to)
    if isinstance(meant, PerdureError):
        return meant
    if act.thread and (lost := _unknown_about(tx, room.id, act.thread)) is not None:
        return lost
    facts = {"to": act.to, "thread": act.thread, **_unwoken(actor)}
    seq = note(tx, room, actor, RoomKind.TASK_OPENED, id, digest, facts=facts)
    tx.run(
        "insert_room_task",
        **_wrote(tx, room, actor, (id, seq, digest)),
        title=act.title,
        to_company=meant.company,
        to_agent=meant.name,
        thread=act.thread,
        state=states.RoomTask.OPEN,
    )
    return Written(id, seq, woken=wake_all(tx, room, actor, [meant], id))


def _id(prefix: str, room: ExecutionRow, actor: Actor, key: str) -> str:
    return written_id(prefix, room.id, actor.company, actor.kind, actor.name, key)


def _wrote(tx: Tx, room: ExecutionRow, actor: Actor, what: tuple[str, int, str]) -> dict[str, Any]:
    """Return what is stored with all that anybody writes: its id, place and digest, and whose it is."""
    id, seq, digest = what
    by = {"company": actor.company, "author": actor.name, "kind": actor.kind, "hops": actor.hops}
    label = codec.encode(list(actor.steered))
    return {"room": room.id, "id": id, "seq": seq, "digest": digest, **by, "steered_by": label, "now_ms": tx.now_ms}


def _unwoken(actor: Actor) -> dict[str, Json]:
    """Say so where nobody is woken any more: too many wakes led here."""
    return {"hops": actor.hops, "wakes": False} if actor.hops >= MOST_HOPS else {}


def _unknown_about(tx: Tx, room: str, id: str) -> NotFound | None:
    found = tx.row("room_message", room=room, id=id) or tx.row("room_task", room=room, id=id)
    return None if found is not None else NotFound(f"there is no message and no task {id} in room {room}.", id=id)


def _change_task(tx: Tx, room: ExecutionRow, actor: Actor, act: ChangeTask) -> Written | PerdureError:
    task = tx.row("room_task", room=room.id, id=act.task)
    if task is None:
        return NotFound(f"there is no task {act.task} in room {room.id}.", task=act.task)
    asked, meant = task["company"] == actor.company, task["to_company"] == actor.company
    if not (asked if act.verb == "cancel" else meant):
        who = f"{task['company']}, which asked for it," if act.verb == "cancel" else f"{task['to_company']}"
        return Conflict(f"task {act.task}: only {who} may {act.verb} it.", code="not_yours")
    who = f"{actor.company}/{actor.name}"
    if not states.allowed(states.ROOM_TASK_TABLE, task["state"], act.verb):
        return _changed_before(task, act, who)
    after = states.move(states.ROOM_TASK_TABLE, task["state"], act.verb)
    held = task["state"] == states.RoomTask.CLAIMED and task["holder"] != who
    if held and act.verb != "cancel":
        return Conflict(
            f"task {act.task} is claimed by {task['holder']}.", code="claimed_by_other", holder=task["holder"]
        )
    holder = "" if after == states.RoomTask.OPEN else who
    digest = codec.digest(act.verb, act.result)
    seq = note(tx, room, actor, RoomKind.TASK_CHANGED, act.task, digest, facts={"verb": act.verb})
    scope = {"room": room.id, "id": act.task}
    tx.run("set_room_task", **scope, state=after, holder=holder, result=act.result, now_ms=tx.now_ms)
    return Written(act.task, seq)


def _changed_before(task: Row, act: ChangeTask, who: str) -> Written | Conflict:
    """Accept what was said before by the same member; refuse what comes too late."""
    ways = {(verb, after) for (_, verb), after in states.ROOM_TASK_TABLE.items()}
    if (act.verb, task["state"]) in ways and task["holder"] in (who, "") and task["result"] == act.result:
        return Written(act.task, 0, created=False)
    return Conflict(
        f"task {act.task} is {task['state']}{' by ' + task['holder'] if task['holder'] else ''}: it cannot be "
        f"changed by {act.verb!r}.",
        code="room_task_state",
        state=task["state"],
    )


# -- memory and members ------------------------------------------------------------------------------------------------


def _remember(tx: Tx, room: ExecutionRow, actor: Actor, act: Remember) -> Written | PerdureError:
    id = _id("mem", room, actor, act.key)
    readers = _readers(actor, act)
    if (known := tx.row("room_memory_line", room=room.id, id=id)) is not None:
        same = codec.digest(known["salt"], act.text, readers, act.source)
        return again(known, same, f"memory key {act.key!r}")
    for reader in readers:
        if reader != EVERYBODY and standing(tx, room.id, reader) is None:
            return InvalidInput(f"readers: {reader!r:.80} is no company in room {room.id}.", code="no_such_member")
    if act.source and (lost := _unknown_about(tx, room.id, act.source)) is not None:
        return lost
    digest = codec.digest(act.salt, act.text, readers, act.source)
    seq = note(tx, room, actor, RoomKind.REMEMBERED, id, digest)
    tx.run(
        "insert_room_memory",
        **_wrote(tx, room, replace(actor, steered=_kept_of(actor, readers)), (id, seq, digest)),
        text=act.text,
        source=act.source,
        salt=act.salt,
    )
    line = {"room": room.id, "line": id, "owner": actor.company, "seq": seq}
    tx.many("insert_room_reader", [{**line, "company": reader} for reader in readers])
    index(tx, Source(room.id, actor.company, "memory", id, seq), {0: act.text}, readers)
    return Written(id, seq)


def _kept_of(actor: Actor, readers: list[str]) -> tuple[str, ...]:
    """Return whose text a line was kept of: of others' lines that are for some alone, too, while it is not for all."""
    owners = [owner for owner, _ in actor.secrets if owner != actor.company] if EVERYBODY not in readers else []
    return tuple(sorted({*actor.steered, *(f"{PRIVATE}{owner}" for owner in owners)}))


def _readers(actor: Actor, act: Remember) -> list[str]:
    return [EVERYBODY] if EVERYBODY in act.readers else sorted({actor.company, *act.readers})


def _membership(
    tx: Tx, room: ExecutionRow, actor: Actor, act: Invite | Join | Leave | PutAgent | RemoveAgent
) -> Written | PerdureError:
    changed = change_member(tx, room.id, actor, act)
    if isinstance(changed, PerdureError):
        return changed
    if changed is None:
        return Written(room.id, 0, created=False)
    return Written(room.id, note(tx, room, actor, changed.kind, changed.about, changed.digest, facts=changed.facts))
