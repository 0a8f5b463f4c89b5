"""What every client does in a room, in whatever version of the SDK: called with two functions of that client.

`tool(name, arguments)` gives (whether it was refused, the text of the answer); `names()` the names of the tools.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

Tool = Callable[[str, dict[str, Any]], Awaitable[tuple[bool, str]]]
Names = Callable[[], Awaitable[list[str]]]


async def run(tool: Tool, names: Names, room: str, foreign: str, word: str) -> None:
    """Do the errand, and print how many things came out as they should, and which did not."""
    good, bad = 0, []

    def check(what: str, right: bool) -> None:
        nonlocal good
        good += right
        if not right:
            bad.append(what)

    async def call(name: str, **given: Any) -> Any:
        refused, text = await tool(name, given)
        check(f"{name} is done", not refused)
        return json.loads(text)

    listed = await names()
    check("the tools are listed", {"post_message", "wait_for_answer"} <= set(listed))
    check("the room is there", room in [one["id"] for one in (await call("list_rooms"))["rooms"]])
    said = await call("post_message", room=room, text=f"hello from {word}")
    again = await call("post_message", room=room, text=f"hello from {word}")
    check("a message that is sent again is one", (again["id"], again["created"]) == (said["id"], False))
    task = await call("create_task", room=room, title=f"task of {word}", to="acme", key=word)
    await call("claim_task", room=room, task=task["id"])
    await call("complete_task", room=room, task=task["id"], result="done")
    closed = await call("wait_for_answer", room=room, about=task["id"])
    check("a closed task ends a wait", closed["task"]["result"] == "done")
    waited = await call("wait_for_answer", room=room, about=said["id"], after=said["seq"], seconds=0.2)
    check("a wait for nothing ends", waited["again"] is True)
    line = await call("remember", room=room, text=f"line of {word}")
    lines = (await call("read_memory", room=room))["lines"]
    check("the line is kept", line["id"] in [one["id"] for one in lines])
    for name, given in (("read_messages", {}), ("post_message", {"text": "x"}), ("show_room", {})):
        refused, text = await tool(name, {"room": foreign, **given})
        check(f"{name} in a foreign room finds nothing", refused and json.loads(text)["error"]["code"] == "not_found")
    sys.stdout.write(json.dumps({"good": good, "bad": bad}) + "\n")
