"""The room as a wake reads it: what its agent may see, and nothing else. One consistent view.

Of files it has the passages that a search for what woke the agent finds first. They are data, whoever put them there:
`rooms/labels.py` makes a label of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.core import states
from perdure.core.codec import Json
from perdure.core.ports import Embedder
from perdure.core.room_views import MemoryView, MessageView, RoomTaskView
from perdure.engine.room_search import Search, matching
from perdure.engine.rooms_members import standing
from perdure.engine.rooms_read import line_view, message_view, task_view
from perdure.store.protocol import Reads, Row

MESSAGES = 50
TASKS = 50
LINES = 100
REFUSALS = 10
PASSAGES = 8
"""Of at most `PASSAGE` characters each."""
AGENTS = 100
"""That are named, the company's own first. All companies are."""
MOST_TEXT = 64_000
"""Characters of the messages, of the tasks and of the lines that are shown, each: two of the longest. Whoever is in a
room could else fill it with more than a model reads or a log holds, and no wake of anybody's would come to its end."""
BEGINNING = 400
"""Characters that are shown of a text that does not fit."""


def snapshot(reads: Reads, company: str, agent: str, room: str, cause: str, embedder: Embedder | None = None) -> Json:
    """Return the room for one agent: what woke it, the newest messages, its open tasks, the newest memory it may read.

    None if the agent is not in the room any more.
    """
    if standing(reads, room, company, agent) != states.Membership.JOINED:
        return None
    last = {"room": room, "limit": MESSAGES, "upto": 2**62}
    messages = [_message(message_view(row)) for row in reads.rows("room_messages_last", **last)]
    tasks = reads.rows("room_tasks_for", room=room, company=company, agent=agent, limit=TASKS)
    lines = reads.rows("room_memory_last", room=room, company=company, limit=LINES)
    woken_by = _cause(reads, room, cause)
    passages = _passages(reads, company, room, woken_by, embedder)
    return {
        "room": {"id": room, "name": _name_of(reads, company, room)},
        "you": f"{company}/{agent}",
        "woken_by": woken_by,
        "members": _members(reads, company, room),
        "messages": _fitting(messages, "text")[::-1],
        "tasks": _fitting([_task(task_view(row)) for row in tasks], "title"),
        "memory": _fitting([_line(line_view(reads, room, row)) for row in lines], "text")[::-1],
        "not_done": _not_done(reads, company, agent, room),
        **({"passages": passages} if passages else {}),
    }


def _fitting(items: Sequence[dict[str, Json]], text: str) -> list[Json]:
    """Return items, those that matter most first: as many texts whole as fit, and the beginnings of the others."""
    left, found = MOST_TEXT, list[Json]()
    for one in items:
        given = str(one[text])
        fits = len(given) <= max(left, BEGINNING)
        shown = given if fits else f"{given[:BEGINNING]}\n[cut: it has {len(given):,} characters]"
        left -= len(shown)
        found.append({**one, text: shown})
    return found


def _name_of(reads: Reads, company: str, room: str) -> str:
    """Return what a room is called, if its name is the company's own text: nothing else here is without its label."""
    found = reads.row("room", room=room)
    return found["name"] if found is not None and found["company"] == company else ""


def _members(reads: Reads, company: str, room: str) -> list[Json]:
    """Return who is there: all companies, and agents."""
    rows = reads.rows("room_members", room=room)
    companies, agents = [row for row in rows if not row["name"]], [row for row in rows if row["name"]]
    agents.sort(key=lambda row: row["company"] != company)
    return [*sorted(map(_name, (*companies, *agents[:AGENTS])))]


def _not_done(reads: Reads, company: str, agent: str, room: str) -> list[Json]:
    """Return what the agent declared lately and was not done: nobody's words, only what the ledger says."""
    rows = reads.rows("refusals_of", room=room, company=company, agent=agent, limit=REFUSALS)
    return [{"act": row["act"], "why": row["code"], "rule": row["rule"]} for row in reversed(rows)]


def _cause(reads: Reads, room: str, cause: str) -> dict[str, Json] | None:
    if (row := reads.row("room_message", room=room, id=cause)) is not None:
        names = ("id", "seq", "company", "author", "kind", "text", "addressed", "thread", "at_ms", "steered_by")
        return {"what": "message", **_message(message_view({name: row[name] for name in names}))}
    row = reads.row("room_task", room=room, id=cause)
    return None if row is None else {"what": "task", **_task(task_view(row))}


def _passages(
    reads: Reads, company: str, room: str, cause: dict[str, Json] | None, embedder: Embedder | None
) -> list[Json]:
    """Return what files say of it, the best first."""
    if cause is None:
        return []
    asked = str(cause.get("text") or cause.get("title") or "")
    found = matching(reads, company, room, Search(asked, ("file",), PASSAGES), embedder)
    return [
        {
            "id": hit.id,
            "from": f"{hit.company}/{hit.author}",
            "version": hit.version,
            "passage": hit.passage,
            "title": hit.file,
            "text": text,
        }
        for hit, text in found
    ]


def _name(row: Row) -> str:
    return f"{row['company']}/{row['name']}" if row["name"] else row["company"]


def _message(one: MessageView) -> dict[str, Json]:
    author = f"{one.company}/{one.author}"
    where: dict[str, Json] = {"to": list(one.to), "thread": one.thread, "text": one.text}
    return {"id": one.id, "from": author, **_label(one), **where}


def _task(one: RoomTaskView) -> dict[str, Json]:
    facts: dict[str, Any] = {"from": f"{one.company}/{one.author}", "to": one.to, "state": str(one.state)}
    return {"id": one.id, **facts, **_label(one), "holder": one.holder, "thread": one.thread, "title": one.title}


def _line(one: MemoryView) -> dict[str, Json]:
    author = f"{one.company}/{one.author}"
    readers: list[Json] = list(one.readers)
    return {"id": one.id, "from": author, **_label(one), "readers": readers, "source": one.source, "text": one.text}


def _label(one: MessageView | RoomTaskView | MemoryView) -> dict[str, Json]:
    """Say whose text was before the agent that wrote it, where it was anybody's."""
    return {"steered_by": list(one.steered_by)} if one.steered_by else {}
