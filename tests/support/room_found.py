"""What is in a room, in its ledger and in the world when servers and workers were killed, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from perdure.core import codec, states
from perdure.core.chain import Follower
from perdure.core.rooms import RoomKind
from perdure.server.node import Node
from room_lives import ROOM
from room_plots import ACME, AGENT, FILE, GLOBEX, LINE, NEW_TASK, PLOTS, REPLY, RESULT, TASK, Plot

RULES = ("resume", "abandon")
"""What an agent's company may say of a crash."""


@dataclass
class Found:
    """What is in the room, in its ledger and in the world in the end."""

    room: dict[str, int]
    """How often what was declared is there, under the word that the ledger has for it."""
    ledger: dict[str, int]
    """What it says of the wake for the task, how often."""
    wakes: int
    state: str
    whole: bool
    """The ledger's chain holds."""
    counted: float
    """Requests to the model that the budget knows of, by what each counts for."""
    asked: int = 0
    bodies: list[str] = field(default_factory=list[str])
    """Of functions of the company's own: which ran, under which key, each time."""

    def judge(self, order: str, plot: str) -> Verdict:
        """Say what went wrong, for a wake that was to be like this plot."""
        wanted, ours = PLOTS[plot], order in RULES
        replied = self.room[RoomKind.POSTED] > 0
        return Verdict(
            doubled=self._doubled(wanted),
            lost=not replied,
            half=replied and not self._all_done(wanted),
            unfinished=ours and self.state != states.Execution.COMPLETED,
            broken=not self.whole or (ours and self.counted < self.asked),
            asked_again=max(0, self.asked - wanted.requests),
            called_again=len(self.bodies) - len(set(self.bodies)),
        )

    def wrong(self, order: str, plot: str) -> str:
        """Say which promise was broken, or nothing. The other orders promise nothing."""
        verdict = self.judge(order, plot)
        unkept = verdict.doubled and order in RULES
        if order == "resume":
            unkept = unkept or verdict.lost or verdict.half or verdict.unfinished
        return f"{verdict} {self}" if unkept or verdict.broken else ""

    def _doubled(self, wanted: Plot) -> bool:
        """Say whether anything is there, told or called more often than once. At most once is by starts of the body,
        at least once by keys."""
        there = any(n > wanted.done[kind] for kind, n in self.room.items())
        told = any(n > wanted.done[kind] for kind, n in self.ledger.items())
        called = any(len(self._calls(name)) > 1 for name in wanted.calls) or len(self._starts("pay")) > 1
        return there or told or called or self.wakes > 1

    def _all_done(self, wanted: Plot) -> bool:
        there = all(n >= wanted.done[kind] for kind, n in self.room.items())
        if not self.wakes:
            return there
        told = all(self.ledger.get(kind, 0) >= n for kind, n in wanted.done.items())
        return there and told and all(self._calls(name) for name in wanted.calls)

    def _starts(self, tool: str) -> list[str]:
        return [line for line in self.bodies if line.startswith(f"{tool} ")]

    def _calls(self, tool: str) -> set[str]:
        return set(self._starts(tool))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What went wrong in one room."""

    doubled: bool
    lost: bool
    half: bool
    unfinished: bool
    broken: bool
    """The ledger's chain does not hold, or a budget does not know of a request."""
    asked_again: int
    called_again: int


async def look(node: Node) -> Found:
    """Return what is there."""
    acme, globex = node.api(ACME), node.api(GLOBEX)
    messages, tasks = await acme.room_messages(ROOM), await acme.room_tasks(ROOM)
    files = await acme.room_files(ROOM, versions=True)
    wakes = [one for one in await globex.room_wakes(ROOM) if one.cause.startswith("rtk")]
    page = await acme.room_ledger(ROOM, limit=1_000)
    follower = Follower(ROOM)
    follower.take(page.links)
    told = [link.kind for link in page.links if wakes and _woken_by(link.data) == wakes[0].cause]
    return Found(
        room={
            RoomKind.POSTED: sum(one.author == AGENT and one.text == REPLY for one in messages),
            RoomKind.REMEMBERED: sum(one.text == LINE for one in await globex.room_memory(ROOM)),
            RoomKind.TASK_OPENED: sum(one.title == NEW_TASK for one in tasks),
            RoomKind.TASK_CHANGED: sum(one.title == TASK and one.result == RESULT for one in tasks),
            RoomKind.FILE_PUT: sum(one.name == FILE for one in files),
        },
        ledger=dict(Counter(told)),
        wakes=len(wakes),
        state=(wakes[0].state or "") if wakes else "",
        whole=follower.end(page.head, page.last_seq).broken_at is None,
        counted=sum(one.spent_usd + one.reserved_usd for one in await globex.room_budgets()),
    )


def _woken_by(data: str) -> str:
    return str(codec.decode(data).get("woken_by"))
