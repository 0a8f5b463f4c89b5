"""One life of a server whose agent is woken in a room: what it does there, and where it is killed.

Lives are forked from a program that never has a thread, so that one costs no imports.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure import failpoints
from perdure.agent.spec import AgentSpec, spec_to_json
from perdure.core import codec
from perdure.core.budgets import Budget
from perdure.core.rooms import (
    Invite,
    Join,
    OnCrash,
    OpenTask,
    Post,
    Stop,
    written_id,
)
from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest, ToolCall, Usage
from perdure.server.executor import ExecutorOptions
from perdure.server.node import Node, Parts, end_former_leases
from perdure.store.ownership import open_owned
from perdure.store.postgres import open_postgres
from perdure.system import SystemClock, SystemRandom

ACME, GLOBEX, AGENT = "acme", "globex", "clerk"
ROOM = written_id("room", ACME, "k")
LEASE_MS = 1_000
PATIENCE = 90.0
MODEL = "model"
"""The point inside a request to the model: not one of the library's, but of this script."""


@dataclass
class Life:
    """What one process does: where, and where it is killed."""

    store: str
    notes: Path
    on_crash: str
    kill: str = ""

    @property
    def rule(self) -> OnCrash:
        """How its agent is registered."""
        return "abandon" if self.on_crash == "abandon" else "resume"

    def note_request(self) -> None:
        """Note that the model was asked, and die there if that is the plan."""
        with (self.notes / "asked").open("a", encoding="utf-8") as out:
            out.write("x")
        if self.kill == MODEL:
            os.kill(os.getpid(), signal.SIGKILL)

    def reply(self, request: ModelRequest) -> ModelReply:
        """Declare an act of each kind. The new task needs a yes: it is another company's, and so is what led to it."""
        self.note_request()
        room = codec.decode(request.messages[0].text)
        if room["woken_by"]["what"] == "message":
            return ModelReply("again", (), "stop", Usage(), "")
        acts = {
            "remember": {"text": "counted"},
            "update_task": {"task": room["woken_by"]["id"], "verb": "complete", "result": "42"},
            "create_task": {"title": "check it", "to": ACME},
        }
        calls = tuple(ToolCall(name, name, codec.encode(args)) for name, args in acts.items())
        return ModelReply("counted: 42", calls, "stop", Usage(), "")

    def open(self) -> Node:
        clock, random = SystemClock(), SystemRandom()
        parts = Parts(
            Catalog(scripted={AGENT: self.reply}, environ={}), clock, random, ExecutorOptions(lease_ms=LEASE_MS)
        )
        if self.store.startswith("postgres"):
            return Node(open_postgres(self.store, random=random), parts)
        owned = open_owned(Path(self.store) / "p.db", clock=clock, random=random, on_takeover=end_former_leases)
        return Node(owned.store, parts, close=owned.close)

    async def set_up(self, node: Node) -> None:
        acme, globex = node.api(ACME), node.api(GLOBEX)
        await acme.create_room("project", key="k", by="ann")
        await acme.write_in_room(ROOM, Invite(GLOBEX), by="ann")
        await globex.write_in_room(ROOM, Join(), by="bob")
        spec = spec_to_json(AgentSpec(AGENT, f"scripted/{AGENT}", "Count."))
        await globex.put_room_agent(ROOM, spec, on_crash=self.rule, by="bob")
        await globex.set_room_budget(Budget(usd=100, unpriced_usd=1), by="bob")

    async def work(self, node: Node) -> None:
        """Ask for the task, and see the wake to its end; if it is to die at a stop, stop it first."""
        await self.set_up(node)
        globex, stops = node.api(GLOBEX), self.kill.startswith("halt_wake")
        if stops:
            await globex.write_in_room(ROOM, Stop(f"{GLOBEX}/{AGENT}"), by="bob")
        await node.api(ACME).write_in_room(ROOM, OpenTask("count", f"{GLOBEX}/{AGENT}", key="t"), by="ann")
        while stops and (await globex.room_wakes(ROOM))[0].state not in ("paused", "completed"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await globex.start_room(ROOM, f"{GLOBEX}/{AGENT}", by="bob")
        await ended(node)

    async def again(self, node: Node) -> None:
        """Write to the agent once more: a fresh wake."""
        await self.set_up(node)
        await node.api(ACME).write_in_room(ROOM, Post("@clerk?", key="again"), by="ann")
        await ended(node)


async def ended(node: Node) -> None:
    """Return when every wake of the room has ended; say yes to what they wait for, once they wait."""
    globex = node.api(GLOBEX)
    for wake in await globex.room_wakes(ROOM):
        end = asyncio.ensure_future(globex.wait(wake.execution))
        while not end.done():
            await say_yes(node)
            await asyncio.wait({end}, timeout=0.02)
        await end


async def say_yes(node: Node) -> None:
    """Approve what wakes wait for that hold nothing any more."""
    globex = node.api(GLOBEX)
    for one in await globex.approvals():
        if (await globex.execution(one.execution)).state == "waiting":
            await globex.decide(one.id, "approve", by="bob")


def live(life: Life, what: Callable[[Node], Coroutine[Any, Any, None]]) -> bool:
    """Run a life in a process of its own; say whether it came to its end. Raises if it ended in another way."""
    status = os.waitpid(fork(life, what), 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return False
    assert os.WEXITSTATUS(status) == 0, f"a life ended with {status}; what it said is above"
    return True


def fork(life: Life, what: Callable[[Node], Coroutine[Any, Any, None]]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            failpoints.arm("" if life.kill == MODEL else _armed(life.kill))
            node = life.open()
            node.start()
            asyncio.run(asyncio.wait_for(what(node), PATIENCE))
            node.stop()
            code = 0
        finally:
            os._exit(code)
    return pid


def _armed(kill: str) -> str:
    point, _, nth = kill.partition("@")
    return f"{point}=kill@{nth}" if kill else ""
