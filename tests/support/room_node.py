"""Rooms over a node: companies write through their verbs, an agent with a scripted model lives there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from node_bench import PATIENCE, NodeBench, Script, node_over, spec, wait_until
from perdure.core import codec
from perdure.core.chain import Follower
from perdure.core.room_views import MemoryView, WakeView
from perdure.core.rooms import Act, Invite, Join, Post
from perdure.core.views import ExecutionView
from perdure.models.port import ModelReply, ModelRequest, ToolCall, Usage

_MARKS = re.compile(r"\[\[[0-9a-z]{16} data from [^]]*\]\]\\n|\\n\[\[[0-9a-z]{16} end\]\]")
ACME, GLOBEX = "acme", "globex"


def answer(text: str, **acts: Any) -> ModelReply:
    """Return a reply that is text and declares acts: `remember={...}`, `create_task=[{...}, {...}]`."""
    calls = [
        ToolCall(f"c{name}{number}", name, codec.encode(one))
        for name, given in acts.items()
        for number, one in enumerate(given if isinstance(given, list) else [given])
    ]
    return ModelReply(text, tuple(calls), "stop", Usage(), "")


def shown(request: ModelRequest) -> Any:
    """Return the room as a request shows it, without the marks around the text of others."""
    return codec.decode(_MARKS.sub("", request.messages[0].text))


@dataclass
class RoomNode:
    """A room of two companies on a node; `globex` has the agent `clerk` there."""

    bench: NodeBench
    room: str

    def __post_init__(self) -> None:
        self.acme, self.globex = self.bench.node.api(ACME), self.bench.node.api(GLOBEX)

    async def post(self, text: str, *to: str, key: str = "") -> str:
        """Write as acme; return the wake that it began."""
        done = await self.acme.write_in_room(self.room, Post(text, to, key=key or text), by="ann")
        return done.woken[0] if done.woken else ""

    async def write(self, act: Act) -> Any:
        return await self.acme.write_in_room(self.room, act, by="ann")

    async def ended(self, execution: str) -> ExecutionView:
        """Return a wake once it has ended."""
        async with asyncio.timeout(PATIENCE):
            await self.globex.wait(execution)
        return await self.globex.execution(execution)

    async def output(self, execution: str) -> dict[str, Any]:
        """Return what a wake gave, once it has ended."""
        return cast("dict[str, Any]", (await self.ended(execution)).output)

    async def bench_state(self, execution: str, state: str) -> None:
        """Return once an execution of globex is in a state."""

        async def there() -> bool:
            return (await self.globex.execution(execution)).state == state

        await wait_until(there)

    async def texts(self) -> list[str]:
        return [one.text for one in await self.acme.room_messages(self.room)]

    async def memory(self) -> list[MemoryView]:
        return await self.globex.room_memory(self.room)

    async def wakes(self) -> list[WakeView]:
        return await self.globex.room_wakes(self.room)

    async def ledger(self) -> list[str]:
        """Return the acts of the ledger, having followed its chain."""
        page = await self.acme.room_ledger(self.room, limit=1_000)
        follower = Follower(self.room)
        follower.take(page.links)
        assert follower.end(page.head, page.last_seq).broken_at is None
        return [link.kind.removeprefix("room_") for link in page.links]


@asynccontextmanager
async def room_over(
    folder: Path, script: Script | list[Any], *, on_crash: Any = "resume", **options: Any
) -> AsyncIterator[RoomNode]:
    """Open a node over a folder with the room, there or not; close it at the end of the block."""
    limits, own = options.pop("limits", None), options.pop("own_tools", ())
    async with node_over(folder, script, **options) as bench:
        acme, globex = bench.node.api(ACME), bench.node.api(GLOBEX)
        room = (await acme.create_room("the project", key="k", by="ann")).id
        await acme.write_in_room(room, Invite(GLOBEX), by="ann")
        await globex.write_in_room(room, Join(), by="bob")
        await globex.put_room_agent(room, spec(*own, limits=limits), on_crash=on_crash, by="bob")
        bench.source = bench.node.tasks(GLOBEX)  # workers by hand are the agent's company's
        yield RoomNode(bench, room)
