"""Kill a server at both ends of the commit of what a tool writes, and make the same call at the next server.

Killed before its commit, the call was not done, and is done now; after it, it was done, and nobody was told.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from http_server import open_node, process
from mcp_members import add_companies, member
from perdure.core.rooms import OpenTask

MOMENTS = {"before_commit": True, "after_commit": False}
"""Where the server dies -> whether the call is still to be done then."""
TOOLS: dict[str, tuple[dict[str, str], str, str]] = {
    "post_message": ({"text": "hello"}, "read_messages", "messages"),
    "create_task": ({"title": "hello", "to": "acme"}, "list_tasks", "tasks"),
    "remember": ({"text": "hello"}, "read_memory", "lines"),
    "claim_task": ({"task": ""}, "list_tasks", "tasks"),
    "complete_task": ({"task": "", "result": "hello"}, "list_tasks", "tasks"),
}
"""Tool -> what it is called with, the tool that shows what came of it, and where in that."""


def lives() -> Iterator[tuple[str, int, list[str]]]:
    """Yield of each tool and moment: its name, how many checks held, and which did not."""
    for tool in TOOLS:
        for moment in MOMENTS:
            with tempfile.TemporaryDirectory() as folder:
                bad = asyncio.run(_life(Path(folder) / "s.db", tool, moment))
                yield f"`{tool}`, killed {moment.replace('_', ' its ')}", CHECKS - len(bad), bad


CHECKS = 4


async def _life(place: Path, tool: str, moment: str) -> list[str]:
    given, shows, where = TOOLS[tool]
    room, task = await _room(place)
    call = {"room": room, **{name: value or task for name, value in given.items()}}
    os.environ["PERDURE_FAILPOINTS"] = f"write_in_room.{moment}=kill"
    with process(place) as first:
        del os.environ["PERDURE_FAILPOINTS"]
        cut = await _cut_off(first.url, tool, call)
        first.popen.wait()
    with process(place) as second:
        async with member("http", second.url, "acme") as acme:
            again, once_more = [await acme.call(tool, **call) for _ in range(2)]
            found = (await acme.call(shows, room=room))[where]
    there = [one for one in found if "hello" in (one.get("text"), one.get("title"), one.get("result"))]
    if tool == "claim_task":
        there = [one for one in found if one["holder"]]
    held = {
        "the first call is cut off": cut,
        "the second does what was not done": again["created"] == MOMENTS[moment],
        "the third does nothing": not once_more["created"],
        "it is there once": len(there) == 1,
    }
    return [what for what, right in held.items() if not right]


async def _room(place: Path) -> tuple[str, str]:
    """Make a room with a task in it, by a process that lives; return both ids."""
    await add_companies(place)
    node = open_node(place)
    try:
        api = node.api("acme")
        room = (await api.create_room("the bridge")).id
        return room, (await api.write_in_room(room, OpenTask("count", "acme"))).id
    finally:
        await asyncio.to_thread(node.stop)


async def _cut_off(url: str, tool: str, call: dict[str, Any]) -> bool:
    try:
        async with member("http", url, "acme") as acme:
            await acme.call(tool, **call)
    except ExceptionGroup:
        return True
    return False
