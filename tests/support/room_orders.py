"""The two other orders in which an agent may act in a room, for comparison: what a crash costs without our own.

`claim`: claim the message, then commit each effect; whoever finds it claimed does nothing. `retry`: commit each effect,
note at last that all is done; whoever does not find that note begins at the top. Written with the public verbs alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure.core.rooms import (
    Act,
    ChangeTask,
    OpenTask,
    Post,
    Remember,
)
from perdure.server.node import Node
from room_lives import ACME, AGENT, GLOBEX, ROOM, Life

ORDERS = ("claim", "retry")
FIRST, LAST = 5, 9
"""Which writes in a life are the order's own: before them come invitation, joining, registration and the task."""


@dataclass
class OrderedLife(Life):
    """A process that does by hand, in one of the orders, what a wake does. `on_crash` is the order."""

    async def work(self, node: Node) -> None:
        acme, globex = node.api(ACME), node.api(GLOBEX)
        await self.set_up(node)
        task = (await acme.write_in_room(ROOM, OpenTask("count", GLOBEX, key="t"), by="ann")).id
        if self.on_crash == "claim":
            claim = await globex.write_in_room(ROOM, Remember("claimed", (GLOBEX,), key="claim"), by=AGENT)
            if not claim.created:
                return
        elif any(line.text == "all is done" for line in await globex.room_memory(ROOM)):
            return
        self.note_request()
        acts: list[Act] = [
            Post("counted: 42"),
            Remember("counted"),
            ChangeTask(task, "complete", "42"),
            OpenTask("check it", ACME),
        ]
        if self.on_crash == "retry":
            acts.append(Remember("all is done", (GLOBEX,)))
        for act in acts:
            await globex.write_in_room(ROOM, act, by=AGENT)
