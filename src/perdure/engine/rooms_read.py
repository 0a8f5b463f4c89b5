"""Read rooms: for people and programs of one company, and for a wake. Whoever is no member finds nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.core import codec, states
from perdure.core.chain import Link, LogPage
from perdure.core.ids import shard_of
from perdure.core.room_views import MemberView, MemoryView, MessageView, RoomTaskView, RoomView, WakeView
from perdure.engine.rooms_members import missing_room, standing
from perdure.errors import InvalidInput, NotFound
from perdure.store.protocol import Reads, Row

PAGE_BYTES = 4_000_000
"""Of text, in a page: what goes beyond it is on the next one. The first of a page is always in it."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of what a room holds, in the order of its ledger. It ends early where that is much text."""

    after: int = 0
    limit: int = 200

    def of(self, room: str) -> dict[str, Any]:
        """Return it as the queries take it."""
        return {"room": room, "after": self.after, "limit": self.limit, "most": PAGE_BYTES}


def rooms_view(reads: Reads, company: str) -> list[RoomView]:
    """Return the rooms that a company is in or may join, the oldest first, without their members."""
    return [_room(reads, row) for row in reads.rows("rooms_of", company=company, room="")]


def room_view(reads: Reads, company: str, room: str) -> RoomView:
    """Return one of them, with its members if the company is one. Raises `NotFound`."""
    row = reads.row("rooms_of", company=company, room=room) if room else None
    if row is None:
        raise missing_room(room)
    joined = row["state"] == states.Membership.JOINED
    return _room(reads, row, reads.rows("room_members", room=room) if joined else ())


def _room(reads: Reads, row: Row, members: Sequence[Row] = ()) -> RoomView:
    head = reads.row("room_head", shard=shard_of(row["id"]), room=row["id"])
    shown = row["state"] == states.Membership.JOINED and head is not None
    fields = ("company", "name", "state", "on_crash", "changed_ms")
    views = tuple(MemberView(**{name: one[name] for name in fields}) for one in members)
    return RoomView(**dict(row), last_seq=head["next_seq"] - 1 if head is not None and shown else 0, members=views)


def check_joined(reads: Reads, company: str, room: str) -> None:
    """Raise `NotFound` if a company is not in a room."""
    if standing(reads, room, company) != states.Membership.JOINED:
        raise missing_room(room)


def messages_view(reads: Reads, company: str, room: str, window: Window, thread: str = "") -> list[MessageView]:
    """Return messages, the oldest first, as many as a page holds. Raises `NotFound`."""
    check_joined(reads, company, room)
    query, about = ("room_thread_after", {"thread": thread}) if thread else ("room_messages_after", {})
    return [message_view(row) for row in reads.rows(query, **window.of(room), **about)]


def message_view(row: Row) -> MessageView:
    given = {name: value for name, value in dict(row).items() if name not in ("addressed", "steered_by")}
    return MessageView(**given, to=tuple(codec.decode(row["addressed"])), steered_by=_label(row))


def _label(row: Row) -> tuple[str, ...]:
    return tuple(codec.decode(row["steered_by"]))


def tasks_view(
    reads: Reads, company: str, room: str, window: Window, state: str = "", to: str = ""
) -> list[RoomTaskView]:
    """Return tasks, the oldest first; `to`: those for a company, or for one of its agents. Raises `NotFound`."""
    check_joined(reads, company, room)
    if state and state not in list(states.RoomTask):
        raise InvalidInput(
            f"there is no state {state[:40]!r} of tasks in rooms; there are: {', '.join(states.RoomTask)}."
        )
    scope = {"state": state, **window.of(room)}
    rows = _tasks(reads, scope, to)
    if not rows and "/" in to:
        owner, _, agent = to.rpartition("/")
        rows = _tasks(reads, scope, owner, agent)
    return list(map(task_view, rows))


def _tasks(reads: Reads, scope: Mapping[str, Any], company: str, agent: str = "") -> list[Row]:
    """Return a page of tasks by an index. Those that are for somebody are asked for by each state by itself: it stands
    before their order there, so few of one state are found among any number of others."""
    if not (company or agent):
        return reads.rows("room_tasks_in" if scope["state"] else "room_tasks_after", **scope)
    query = "room_tasks_to_agent" if agent else "room_tasks_to"
    given = {**scope, "to_company": company, "to_agent": agent}
    asked = [scope["state"]] if scope["state"] else list(states.RoomTask)
    return _fitting((row for state in asked for row in reads.rows(query, **{**given, "state": state})), scope["limit"])


def _fitting(rows: Iterable[Row], limit: int) -> list[Row]:
    """Return of pages the page that they make together: as each of them, no more than fits."""
    page: list[Row] = []
    size = 0
    for row in sorted(rows, key=lambda one: one["seq"])[:limit]:
        if size >= PAGE_BYTES:
            break
        page.append(row)
        size += len(row["title"]) + len(row["result"])
    return page


def room_task_view(reads: Reads, company: str, room: str, task: str) -> RoomTaskView:
    """Return one. Raises `NotFound`."""
    check_joined(reads, company, room)
    row = reads.row("room_task", room=room, id=task)
    if row is None:
        raise NotFound(f"there is no task {task[:80]} in room {room}.", task=task[:80])
    return task_view(row)


def task_view(row: Row) -> RoomTaskView:
    to = f"{row['to_company']}/{row['to_agent']}" if row["to_agent"] else row["to_company"]
    names = (
        *("id", "seq", "company", "author", "title", "thread", "state", "holder", "result"),
        *("opened_ms", "changed_ms"),
    )
    return RoomTaskView(**{name: row[name] for name in names}, to=to, steered_by=_label(row))


def memory_view(reads: Reads, company: str, room: str, window: Window) -> list[MemoryView]:
    """Return the lines that a company may read, the oldest first. Raises `NotFound`."""
    check_joined(reads, company, room)
    rows = reads.rows("room_memory_after", company=company, **window.of(room))
    return [line_view(reads, room, row) for row in rows]


def line_view(reads: Reads, room: str, row: Row) -> MemoryView:
    readers = tuple(one["company"] for one in reads.rows("room_readers", room=room, line=row["id"]))
    given = {name: value for name, value in dict(row).items() if name != "steered_by"}
    return MemoryView(**given, readers=readers, steered_by=_label(row))


def wakes_view(reads: Reads, company: str, room: str, limit: int) -> list[WakeView]:
    """Return whom what woke, the newest first; of other companies' wakes not how they stand. Raises `NotFound`."""
    check_joined(reads, company, room)
    rows = reads.rows("room_wakes", room=room, limit=limit)
    own = {row["execution"]: shard_of(row["execution"]) for row in rows if row["company"] == company}
    found = reads.rows("states_of", wanted=codec.encode(own)) if own else []
    state = {row["id"]: row["state"] for row in found}
    return [
        WakeView(
            row["company"],
            row["agent"],
            row["cause"],
            row["execution"] if row["execution"] in own else "",
            state.get(row["execution"]),
            row["at_ms"],
        )
        for row in rows
    ]


def ledger_page(reads: Reads, company: str, room: str, window: Window) -> LogPage:
    """Return the ledger above `after` as it is stored, with its hashes. Raises `NotFound`."""
    check_joined(reads, company, room)
    head = reads.row("room_head", shard=shard_of(room), room=room)
    if head is None:
        raise missing_room(room)
    scope = {"shard": shard_of(room), "execution": room}
    rows = reads.rows("chain_after", **scope, after=window.after, limit=window.limit, most=PAGE_BYTES)
    last = head["next_seq"] - 1
    return LogPage(room, "", "", head["chain"], last, last, tuple(Link(**row) for row in rows))
