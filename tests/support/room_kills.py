"""Kill the server of a wake at each point it passes, several times in a row, and count what is in the room in the end.

One program: it never has a thread, and forks a process for each life of a server, so that a life costs no imports. A
life opens the store, asks once more for the whole set-up (all of it has keys), and ends when every wake has ended.

`room_kills.py [STORE [ROUNDS [POINTS]]]` prints what it came to. STORE: nothing for SQLite, `postgres` for a server
of its own, or a server's address. ROUNDS: how often in a row; or `senders`: two servers send one message a hundred
times; or `budget`: two servers wake an agent twenty times whose budget is enough for seven.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

import postgres_server
from perdure.core import codec, states
from perdure.core.budgets import Budget
from perdure.core.chain import Follower
from perdure.core.rooms import Post
from perdure.server.node import Node
from room_lives import ACME, AGENT, GLOBEX, MODEL, ROOM, Life, ended, fork, live
from room_orders import FIRST, LAST, ORDERS, OrderedLife

DONE = [
    *("room_posted", "room_remembered", "room_task_changed"),
    *("room_act_held", "room_task_opened", "room_wake_ended"),
]
"""What the ledger says of a wake, if all went right."""
_OF_A_WAKE = tuple(
    f"{name}.{moment}@{nth}"
    for name, nth in (
        ("write_in_room", 4),  # the task, the claim and the execution
        ("record", 1),  # the room as it was read
        ("reserve", 1),  # the budget that the request to the model may take
        ("settle", 1),  # what it came to
        ("record", 2),  # the model's reply
        ("act_in_room", 1),  # the reply in the room
        ("act_in_room", 2),  # memory line, change of the task, and that the new task is held
        ("act_in_room", 3),  # asking for the yes to it
        ("park", 1),
        ("decide", 1),  # the yes
        ("act_in_room", 4),  # the new task
        ("act_in_room", 5),  # the ledger's end of the wake
        ("finish", 1),
        ("halt_wake", 1),  # that it was stopped
    )
    for moment in ("before_commit", "after_commit")
)
POINTS = (*_OF_A_WAKE, MODEL)
POINTS_OF_ORDERS = (
    *(f"write_in_room.{when}_commit@{n}" for n in range(FIRST, LAST + 1) for when in ("before", "after")),
    MODEL,
)


@dataclass
class Counted:
    """What is in the room in the end."""

    replies: int
    lines: int
    new_tasks: int
    closed: bool
    wakes: int
    state: str
    ledger: list[str]
    """Of the first wake."""
    asked: int
    whole: bool
    """The ledger's chain holds."""
    counted: float
    """Requests to the model that the budget knows of, by what each counts for."""

    @property
    def doubled(self) -> bool:
        twice = any(self.ledger.count(act) > 1 for act in self.ledger)
        return twice or max(self.replies, self.lines, self.new_tasks, self.wakes) > 1

    @property
    def lost(self) -> bool:
        return self.replies == 0

    @property
    def half(self) -> bool:
        """Whether there is a reply, and not all the rest; of a wake also not in the ledger."""
        rest = bool(self.lines and self.new_tasks and self.closed) and (not self.wakes or self.ledger == DONE)
        return self.replies > 0 and not rest


async def count(node: Node, keep: Callable[[str], object]) -> None:
    """Give what is in the room, as JSON, to somebody who keeps it."""
    acme, globex = node.api(ACME), node.api(GLOBEX)
    lines = await globex.room_memory(ROOM)
    messages, tasks = await acme.room_messages(ROOM), await acme.room_tasks(ROOM)
    wakes = [one for one in await globex.room_wakes(ROOM) if one.cause.startswith("rtk")]
    page = await acme.room_ledger(ROOM, limit=1_000)
    follower = Follower(ROOM)
    follower.take(page.links)
    found = {
        "replies": sum(one.author == AGENT and one.text.startswith("counted") for one in messages),
        "lines": sum(one.text == "counted" for one in lines),
        "new_tasks": sum(one.title == "check it" for one in tasks),
        "closed": any(one.title == "count" and one.result == "42" for one in tasks),
        "wakes": len(wakes),
        "state": wakes[0].state if wakes else "",
        "ledger": [link.kind for link in page.links if wakes and _woken_by(link.data) == wakes[0].cause],
        "counted": sum(one.spent_usd + one.reserved_usd for one in await globex.room_budgets()),
        "whole": follower.end(page.head, page.last_seq).broken_at is None,
    }
    keep(json.dumps(found))


def _woken_by(data: str) -> str:
    return str(codec.decode(data).get("woken_by"))


@dataclass
class Tally:
    """What runs came to."""

    runs: int = 0
    kills: int = 0
    doubled: int = 0
    lost: int = 0
    half: int = 0
    broken: int = 0
    extra_requests: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def take(self, name: str, kills: int, found: Counted) -> None:
        self.runs += 1
        self.kills += kills
        self.doubled += found.doubled
        self.lost += found.lost
        self.half += found.half
        self.broken += not found.whole
        self.extra_requests += max(found.asked - 1, 0)
        unfinished = found.lost or found.half or found.state != states.Execution.COMPLETED
        broken = {"resume": found.doubled or unfinished, "abandon": found.doubled}  # the other orders promise nothing
        unpaid = name.partition(" ")[0] in broken and found.counted < found.asked
        if broken.get(name.partition(" ")[0]) or not found.whole or unpaid:
            self.wrong.append(f"{name}: {found}")


def run(store: str, on_crash: str, kills: list[str]) -> tuple[int, Counted]:
    """Kill one server after the other, then let one finish; return how many were killed, and what is there then."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder)
        kind = OrderedLife if on_crash in ORDERS else Life
        life = kind(store or folder, notes, on_crash)
        doomed = [kind(life.store, notes, on_crash, kill) for kill in kills]
        killed = sum(not live(one, one.work) for one in doomed)
        if on_crash == "abandon":
            assert live(life, life.work)

        async def last(node: Node) -> None:
            await (life.again(node) if on_crash == "abandon" else life.work(node))
            await count(node, (notes / "found").write_text)

        assert live(life, last)
        asked = notes / "asked"
        found = json.loads((notes / "found").read_text(encoding="utf-8"))
        return killed, Counted(**found, asked=len(asked.read_text()) if asked.exists() else 0)


def sweep(store: str, on_crash: str, rounds: int, points: tuple[str, ...] = ()) -> Tally:
    """Kill at each point, as often in a row as `rounds`, each in a room of its own."""
    tally = Tally()
    # Later lives pass fewer points, as they do only what is left: they die at the first pass.
    nth = FIRST if on_crash in ORDERS else 1
    for point in points or (POINTS_OF_ORDERS if on_crash in ORDERS else POINTS):
        with database(store) as place:
            first = f"{point.partition('@')[0]}@{nth}" if point != MODEL else MODEL
            killed, found = run(place, on_crash, [point] + [first] * (rounds - 1))
        tally.take(f"{on_crash} {point}", killed, found)
    return tally


_numbers = itertools.count(1)


@contextmanager
def database(store: str) -> Iterator[str]:
    """Give a fresh database of this server; for SQLite nothing, as each run has a folder of its own."""
    if not store:
        yield ""
        return
    name = f"rooms_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(store, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield store.replace("/postgres?", f"/{name}?")
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def send_all(store: str) -> dict[str, int]:
    """Have two servers send the same message fifty times each, all at once; return what came of it."""
    with tempfile.TemporaryDirectory() as folder, database(store) as place:
        life = Life(place, Path(folder), "resume")
        assert live(life, life.set_up)
        pids = [fork(life, lambda node, number=number: _send(life, node, number)) for number in range(2)]
        for pid in pids:
            assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 0
        assert live(life, lambda node: _sent(node, (Path(folder) / "found").write_text))
        found = json.loads((Path(folder) / "found").read_text(encoding="utf-8"))
        created = sum(int(one.read_text(encoding="utf-8")) for one in Path(folder).glob("created*"))
        return {**found, "asked": len((Path(folder) / "asked").read_text(encoding="utf-8")), "created": created}


async def _send(life: Life, node: Node, number: int) -> None:
    api = node.api(ACME)
    acts = (api.write_in_room(ROOM, Post("@clerk?", key="one"), by="ann") for _ in range(50))
    created = sum(done.created for done in await asyncio.gather(*acts))
    (life.notes / f"created{number}").write_text(str(created), encoding="utf-8")
    await ended(node)


async def _sent(node: Node, keep: Callable[[str], object]) -> None:
    messages = await node.api(ACME).room_messages(ROOM)
    wakes = await node.api(GLOBEX).room_wakes(ROOM)
    own = [one.author == AGENT for one in messages]
    keep(json.dumps({"messages": own.count(False), "wakes": len(wakes), "replies": own.count(True)}))


def spend_all(store: str) -> dict[str, Any]:
    """Have two servers wake an agent ten times each, all at once, with a budget for seven; return what came of it."""
    with tempfile.TemporaryDirectory() as folder, database(store) as place:
        life = Life(place, Path(folder), "resume")
        assert live(life, lambda node: _cap(life, node))
        pids = [fork(life, lambda node, number=number: _spend(node, number)) for number in range(2)]
        for pid in pids:
            assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 0
        assert live(life, lambda node: _spent(node, (Path(folder) / "found").write_text))
        found = json.loads((Path(folder) / "found").read_text(encoding="utf-8"))
        return {**found, "asked": len((Path(folder) / "asked").read_text(encoding="utf-8"))}


async def _cap(life: Life, node: Node) -> None:
    await life.set_up(node)
    await node.api(GLOBEX).set_room_budget(Budget(usd=7, unpriced_usd=1))


async def _spend(node: Node, number: int) -> None:
    api = node.api(ACME)
    await asyncio.gather(
        *(api.write_in_room(ROOM, Post(f"@clerk {number} {n}", key=f"{number} {n}")) for n in range(10))
    )
    await _at_rest(node)


async def _at_rest(node: Node) -> Counter[str]:
    """Return how many wakes are in which state, once all twenty have ended or are paused."""
    while True:
        found = Counter(str(one.state) for one in await node.api(GLOBEX).room_wakes(ROOM))
        if found["completed"] + found["paused"] == 20:
            return found
        await asyncio.sleep(0.05)


async def _spent(node: Node, keep: Callable[[str], object]) -> None:
    states_ = await _at_rest(node)
    [budget] = await node.api(GLOBEX).room_budgets()
    keep(json.dumps({**states_, "spent": budget.spent_usd, "reserved": budget.reserved_usd}))


def main(store: str, rounds: str, points: str) -> int:
    """Sweep with both rules and both other orders; print what it came to as JSON. 1 if a promise was broken."""
    if store == "postgres":
        binaries = postgres_server.find_binaries()
        assert binaries, "no PostgreSQL binaries"
        with postgres_server.running(binaries) as address:
            return main(address, rounds, points)
    if rounds in ("senders", "budget"):
        sys.stdout.write(json.dumps(send_all(store) if rounds == "senders" else spend_all(store)) + "\n")
        return 0
    code = 0
    for on_crash in ("resume", "abandon", *(ORDERS if not points else ())):
        tally = sweep(store, on_crash, int(rounds), tuple(points.split(",")) if points else ())
        where = store.partition(":")[0] or "sqlite"
        sys.stdout.write(json.dumps({"on_crash": on_crash, "store": where, **vars(tally)}) + "\n")
        code |= bool(tally.wrong)
    return code


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(*given, *("", "3", "")[len(given) :]))
