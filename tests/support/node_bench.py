"""A node over a real store, agents with scripted models, and tools that the test answers by hand.

Waits on facts: every helper that waits looks at the log, and fails instead of hanging.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from perdure.agent.spec import AgentSpec, LimitsEntry, ToolEntry, spec_to_json
from perdure.core.events import Event
from perdure.core.ports import Clock, Embedder
from perdure.core.views import ExecutionView, StartRequest
from perdure.core.work import Answer, Begin, Failure, Lane, LeasedTask, LeaseRequest, Report
from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest
from perdure.models.scripted import Step, turns
from perdure.server.executor import ExecutorOptions
from perdure.server.node import Node, Parts
from perdure.server.server_keys import ServerKey
from perdure.server.tool_source import ServerTools
from perdure.system import SystemClock
from perdure.testing.clock import SeededRandom
from which_store import kind, own_store

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds until a wait for something that should happen fails the test. No measure: a loaded machine takes its time."""

KEYS = (ServerKey(b"k" * 32),)
"""What secrets are under where servers share a database, which has no key of its own as a file has."""

_seeds = itertools.count(1)

ANY_OBJECT: dict[str, Any] = {"type": "object"}
AGENT = "clerk"
COMPANY = "default"


class Hold:
    """Holds a model's answer back, on whatever loop it is given."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._reached = threading.Event()
        self._opened = threading.Event()

    async def __call__(self, request: ModelRequest) -> None:
        if request.call.endswith("/" + self.address):
            self._reached.set()
            while not self._opened.is_set():  # noqa: ASYNC110 - it is opened on another loop
                await asyncio.sleep(0.002)

    async def reached(self) -> None:
        """Return once the model was asked."""
        assert await asyncio.to_thread(self._reached.wait, PATIENCE), f"{self.address} was never asked for"

    def open(self) -> None:
        """Let the answer go."""
        self._opened.set()


@dataclass
class Script:
    """A model that plays a list and remembers what it was asked. Lives longer than any node."""

    replies: Sequence[Step | BaseException]
    """By the place in the conversation, so the same after a crash."""
    requests: list[ModelRequest] = field(default_factory=list)
    gate: Callable[[ModelRequest], Awaitable[None]] | None = None
    """Awaited before each answer."""
    aloud: bool = False
    """Whether it tells its replies in pieces."""

    async def speak(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        """Play the list word by word."""
        reply = await self(request)
        for word in reply.text.split(" "):
            yield word
        yield reply

    async def __call__(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        if self.gate is not None:
            await self.gate(request)
        step = self.replies[turns(request)]
        if isinstance(step, BaseException):
            raise step
        return step(request) if callable(step) else step

    @property
    def calls(self) -> list[str]:
        """Return the addresses that were asked for, in order."""
        return [request.call.partition("/")[2] for request in self.requests]

    def shown(self, request: int = -1) -> list[tuple[str, str]]:
        """Return what a request showed the model: (role, text)."""
        return [(message.role, message.text) for message in self.requests[request].messages]


@dataclass
class NodeBench:
    """An open node and its default company's verbs."""

    node: Node
    script: Script
    _nonce: int = 0

    def __post_init__(self) -> None:
        self.api = self.node.api(COMPANY)
        self.source = self.node.tasks(COMPANY)

    async def start(self, *tools: ToolEntry, input: Any = "hi", **options: Any) -> str:
        """Start an agent with these tools; return the execution's id."""
        return (await self.api.start(StartRequest(spec(*tools, **options), input))).id

    async def until(self, execution: str, kind: str, *, after: int = 0, address: str | None = None) -> Event:
        """Return the first event of a kind above `after`, as soon as it is there."""
        async with asyncio.timeout(PATIENCE):
            async for event in self.api.follow(execution, after=after):
                if event.kind == kind and address in (None, event.address):
                    return event
        raise AssertionError(f"it ended without {kind}: {await self.kinds(execution)}")

    async def state(self, execution: str, state: str, *, ownership: str | None = None) -> ExecutionView:
        """Return the view once the execution is in a state, and let go of if that is asked for."""
        async with asyncio.timeout(PATIENCE):
            while True:
                owned = ownership is None or ownership == await self.ownership(execution)
                view = await self.api.execution(execution)  # after: what it shows is no older than its being let go of
                if view.state == state and owned:
                    return view
                await asyncio.sleep(0.005)

    async def ownership(self, execution: str) -> str:
        from perdure.engine.query import execution_row_of

        return (await self.node.bridge.read(lambda reads: execution_row_of(reads, COMPANY, execution)))["ownership"]

    async def result(self, execution: str) -> ExecutionView:
        """Return the view once it has ended."""
        async with asyncio.timeout(PATIENCE):
            async for _ in self.api.follow(execution):
                pass
        return await self.api.execution(execution)

    async def log(self, execution: str) -> list[Event]:
        return await self.api.events(execution)

    async def kinds(self, execution: str) -> list[str]:
        return [str(event.kind) for event in await self.log(execution)]

    # -- a worker by hand ----------------------------------------------------------------------------------------------

    async def lease(self, *tools: str, worker: str = "wrk_1", slots: int = 10, count: int = 1) -> list[LeasedTask]:
        """Reserve tasks of these tools; wait until `count` are there."""
        lanes = tuple(Lane(AGENT, tool) for tool in tools)
        leased: list[LeasedTask] = []
        async with asyncio.timeout(PATIENCE):
            while len(leased) < count:
                self._nonce += 1
                request = LeaseRequest(worker, f"n{self._nonce}", lanes, slots - len(leased))
                leased += await self.source.lease(request, wait_seconds=PATIENCE)
        return leased

    async def none_to_lease(self, *tools: str) -> bool:
        """Say whether nothing is free for these tools now."""
        self._nonce += 1
        lanes = tuple(Lane(AGENT, tool) for tool in tools)
        return not await self.source.lease(LeaseRequest("wrk_0", f"n{self._nonce}", lanes, 10), wait_seconds=0)

    async def uncertain(self, tool: str) -> LeasedTask:
        """Take a task of an effect, begin it, and report that nobody knows what became of it."""
        [task] = await self.lease(tool)
        assert await self.begin(task) is Answer.ACCEPTED
        assert await self.failed(task, "the line went dead") is Answer.ACCEPTED
        return task

    async def begin(self, task: LeasedTask, nonce: str = "b") -> Answer:
        return await self.source.begin(Begin(task.execution, task.address, task.fence, nonce))

    async def done(self, task: LeasedTask, value: Any = None) -> Answer:
        return (await self.source.report("wrk_1", [_report(task, "completed", value=value)]))[0]

    async def failed(
        self, task: LeasedTask, message: str = "it broke", *, permanent: bool = True, code: str = "boom"
    ) -> Answer:
        failure = Failure(code, message, permanent)
        return (await self.source.report("wrk_1", [_report(task, "failed", failure=failure)]))[0]

    async def serve(self, tools: Mapping[str, Callable[[dict[str, Any]], Any]]) -> None:
        """Answer every task of these tools until cancelled."""
        while True:
            for task in await self.lease(*tools):
                await self.done(task, tools[task.tool](task.args))


async def wait_until(look: Callable[[], Awaitable[T | None]]) -> T:
    """Return what a look finds, once it finds something."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await look()):  # noqa: ASYNC110 - what it looks at may be on another loop
            await asyncio.sleep(0.005)
        return found


def _report(task: LeasedTask, outcome: Any, **options: Any) -> Report:
    return Report(task.execution, task.address, task.fence, outcome, **options)


def spec(*tools: ToolEntry, limits: LimitsEntry | None = None, **options: Any) -> dict[str, Any]:
    """Return the definition of the agent `clerk`, which asks `scripted/clerk`."""
    given: dict[str, Any] = {"model": "scripted/clerk", "instructions": "Be brief.", **options}
    return spec_to_json(AgentSpec(AGENT, tools=tools, limits=limits or LimitsEntry(), **given))


def tool(name: str, **options: Any) -> ToolEntry:
    """Return a tool that takes any object."""
    return ToolEntry(name, f"Does {name}.", options.pop("schema", ANY_OBJECT), **options)


@asynccontextmanager
async def node_over(
    folder: Path,
    script: Script | Sequence[Step | BaseException],
    *,
    clock: Clock | None = None,
    options: ExecutorOptions | None = None,
    environ: Mapping[str, str] | None = None,
    tools: ServerTools | None = None,
    embedder: Embedder | None = None,
) -> AsyncIterator[NodeBench]:
    """Open a node over the store in a folder, there or not; stop it at the end of the block."""
    script = script if isinstance(script, Script) else Script(script)
    clock = clock or SystemClock()
    catalog = Catalog(scripted={"clerk": script.speak if script.aloud else script}, environ=environ or {})
    random = SeededRandom(next(_seeds))
    store, close = own_store(folder / "p.db", clock=clock, random=random)
    keys = KEYS if kind() == "postgres" else ()
    options = options or ExecutorOptions()
    parts = Parts(catalog, clock, random, options, tools, server_keys=keys, embedder=embedder)
    node = Node(store, parts, close=close)
    node.start()
    try:
        yield NodeBench(node, script)
    finally:
        await asyncio.to_thread(node.stop)
