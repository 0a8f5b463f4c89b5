"""Two servers on one database in a crowd: `room_crowds.py senders|budget ADDRESS` prints what came of it, as JSON.

`senders`: each sends the same message fifty times, all at once. `budget`: each wakes an agent ten times, all at once,
whose budget is enough for seven. Processes are forked, so that one costs no imports.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from perdure.core.budgets import Budget
from perdure.core.rooms import Post
from perdure.server.node import Node
from room_kills import Stores
from room_lives import ROOM, Life, ended, fork, live
from room_plots import ACME, AGENT, GLOBEX, asked

SERVERS, SENT_BY_EACH, WOKEN_BY_EACH = 2, 50, 10


async def _send(life: Life, node: Node, number: int) -> None:
    api = node.api(ACME)
    acts = (api.write_in_room(ROOM, Post("@clerk?", key="one"), by="ann") for _ in range(SENT_BY_EACH))
    created = sum(done.created for done in await asyncio.gather(*acts))
    with (life.notes / f"created{number}").open("a", encoding="utf-8") as out:
        out.write(f"{created}\n")
    await ended(node)


async def _sent(life: Life, node: Node) -> dict[str, Any]:
    messages = await node.api(ACME).room_messages(ROOM)
    wakes = await node.api(GLOBEX).room_wakes(ROOM)
    own = [one.author == AGENT for one in messages]
    told = [one.read_text(encoding="utf-8") for one in life.notes.glob("created*")]
    created = sum(int(line) for text in told for line in text.splitlines())
    return {"messages": own.count(False), "wakes": len(wakes), "replies": own.count(True), "created": created}


async def _spend(life: Life, node: Node, number: int) -> None:
    await node.api(GLOBEX).set_room_budget(Budget(usd=7, unpriced_usd=1))
    keys = [f"{number} {n}" for n in range(WOKEN_BY_EACH)]
    await asyncio.gather(*(node.api(ACME).write_in_room(ROOM, Post(f"@clerk {key}", key=key)) for key in keys))
    await _at_rest(node)


async def _at_rest(node: Node) -> Counter[str]:
    """Return how many wakes are in which state, once all have ended or are paused."""
    while True:
        found = Counter(str(one.state) for one in await node.api(GLOBEX).room_wakes(ROOM))
        if found["completed"] + found["paused"] == SERVERS * WOKEN_BY_EACH:
            return found
        await asyncio.sleep(0.05)


async def _spent(life: Life, node: Node) -> dict[str, Any]:
    found = await _at_rest(node)
    [budget] = await node.api(GLOBEX).room_budgets()
    return {**found, "spent": budget.spent_usd, "reserved": budget.reserved_usd}


Act = Callable[[Life, Node, int], Coroutine[Any, Any, None]]
Look = Callable[[Life, Node], Coroutine[Any, Any, dict[str, Any]]]
CROWDS: dict[str, tuple[Act, Look]] = {"senders": (_send, _sent), "budget": (_spend, _spent)}


def gather(crowd: str, address: str, notes: Path) -> dict[str, Any]:
    """Have the servers do it, and return what came of it."""
    act, look = CROWDS[crowd]
    stores = Stores("postgres", address, notes)
    with stores.copy("resume", "answers", notes) as store:
        life = Life(store, notes, "resume")
        pids = [fork(life, lambda node, number=number: act(life, node, number)) for number in range(SERVERS)]
        for pid in pids:
            assert os.waitpid(pid, 0)[1] == 0

        async def last(node: Node) -> None:
            (notes / "found").write_text(json.dumps(await look(life, node)), encoding="utf-8")

        live(life, last)
    return {**json.loads((notes / "found").read_text(encoding="utf-8")), "asked": asked(notes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("crowd", choices=CROWDS)
    parser.add_argument("address", help="of a PostgreSQL server, where databases may be made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as notes:
        sys.stdout.write(json.dumps(gather(options.crowd, options.address, Path(notes))) + "\n")


if __name__ == "__main__":
    main()
