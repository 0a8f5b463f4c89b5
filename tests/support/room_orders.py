"""The two other orders in which an agent may act in a room, for comparison: what a crash costs without our own.

`claim`: claim the message, then commit each effect; whoever finds it claimed does nothing. `retry`: commit each effect,
note at last that all is done; whoever does not find that note begins at the top. Written with the public verbs alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from perdure import failpoints
from perdure.core.rooms import Act, ChangeTask, OpenTask, Post, Remember, ShareFile
from perdure.server.node import Node
from room_lives import ROOM, Life
from room_plots import ACME, AGENT, ASKED, FILE, GLOBEX, LINE, MODEL, NEW_TASK, REPLY, RESULT, TASK

ORDERS = ("claim", "retry")
FIRST, LAST = 2, 7
"""Which writes in a life are the order's own: before them comes the task."""
POINTS = (*(f"write_in_room.{when}_commit@{n}" for n in range(FIRST, LAST + 1) for when in ("before", "after")), MODEL)


@dataclass
class OrderedLife(Life):
    """A process that does by hand, in one of the orders, what a wake does. `on_crash` is the order."""

    async def work(self, node: Node) -> None:
        acme, globex = node.api(ACME), node.api(GLOBEX)
        task = (await acme.write_in_room(ROOM, OpenTask(TASK, GLOBEX, key="t"), by="ann")).id
        if self.on_crash == "claim":
            claim = await globex.write_in_room(ROOM, Remember("claimed", (GLOBEX,), key="claim"), by=AGENT)
            if not claim.created:
                return
        elif any(line.text == "all is done" for line in await globex.room_memory(ROOM)):
            return
        with (self.notes / ASKED).open("a", encoding="utf-8") as out:
            out.write("x")
        failpoints.hit(MODEL)
        acts: list[Act] = [
            Post(REPLY),
            Remember(LINE),
            ChangeTask(task, "complete", RESULT),
            OpenTask(NEW_TASK, ACME),
            ShareFile(FILE, RESULT, key=f"life {os.getpid()}"),  # as the others get a key of chance
        ]
        if self.on_crash == "retry":
            acts.append(Remember("all is done", (GLOBEX,)))
        for act in acts:
            await globex.write_in_room(ROOM, act, by=AGENT)
