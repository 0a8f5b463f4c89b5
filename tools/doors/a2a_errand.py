"""What every client does with published agents, in whatever version of the protocol: called with that client's verbs.

Each verb takes the name of an agent first. What a task is, all give as a `Seen`; what is refused, as a `Refused`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable
from typing import Any, NamedTuple, Protocol


class Seen(NamedTuple):
    """A task, or what is said of one."""

    task: str
    state: str
    """In small letters, words parted by hyphens."""
    answer: str = ""


class Refused(Exception):
    """The server said no."""


class Verbs(Protocol):
    """A client."""

    async def name(self, agent: str) -> str: ...
    async def send(self, agent: str, text: str, id: str, *, at_once: bool = False) -> Seen: ...
    async def get(self, agent: str, task: str) -> Seen: ...
    async def cancel(self, agent: str, task: str) -> Seen: ...
    def stream(self, agent: str, text: str, id: str) -> AsyncIterator[Seen]: ...
    def again(self, agent: str, task: str) -> AsyncIterator[Seen]: ...
    async def push(self, agent: str, task: str, url: str) -> str: ...


async def run(verbs: Verbs, word: str) -> None:
    """Do the errand, and print how many things came out as they should, and which did not."""
    good, bad = 0, []

    def check(what: str, right: bool) -> None:
        nonlocal good
        good += right
        if not right:
            bad.append(what)

    async def refused(what: str, work: Awaitable[Any]) -> None:
        try:
            found = await work
        except Refused:
            check(what, right=True)
        else:
            check(f"{what} (it gave {found})", right=False)

    check("the card is the agent's", await verbs.name("plain") == "plain")
    done = await verbs.send("plain", "go", f"{word}-1")
    check("a message is answered", (done.state, done.answer) == ("completed", "done"))
    again = await verbs.send("plain", "go", f"{word}-1")
    check("a message that is sent again is one task", again.task == done.task)
    await refused("another message under its id is refused", verbs.send("plain", "come", f"{word}-1"))
    check("the task is found", await verbs.get("plain", done.task) == done)
    await refused("a task that is not there is refused", verbs.get("plain", "exe_nothing"))
    await refused("an ended task is not cancelled", verbs.cancel("plain", done.task))
    held = await verbs.send("approval", "go", f"{word}-2")
    check("what waits for a person says so", held.state == "input-required")
    begun = await verbs.send("tool", "go", f"{word}-3", at_once=True)
    check("what is under way says so", begun.state in ("submitted", "working"))
    told = verbs.again("tool", begun.task)
    check("whoever listens again hears how it stands", (await anext(told)).task == begun.task)
    await told.aclose()  # type: ignore[attr-defined]
    check("whom to tell is kept", await verbs.push("tool", begun.task, "https://x.example/told") != "")
    check("a cancel ends it", (await verbs.cancel("tool", begun.task)).state == "canceled")
    states = [one.state async for one in verbs.stream("plain", "go", f"{word}-4") if one.state]
    check("a stream ends when the task does", states[-1:] == ["completed"])
    check("and says nothing twice", len(states) == len(set(states)))
    sys.stdout.write(json.dumps({"good": good, "bad": bad}) + "\n")
