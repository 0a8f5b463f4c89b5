"""The queue of the tools that the server itself calls, and what runs them: a worker in the server's own process.

They are tasks like any others: leased, begun, tried again and reported by the same rules, whatever dies in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from perdure.agent.discovery import entries_of, listing_address
from perdure.agent.schema import Signature
from perdure.agent.server_tools import HttpPart, McpPart
from perdure.agent.spec import ToolEntry, spec_from_json
from perdure.agent.tool import ToolDefinition, ToolOptions
from perdure.core.codec import Json
from perdure.core.delivery import is_simulation, simulated_tool
from perdure.core.events import Kind
from perdure.core.ids import shard_of
from perdure.core.work import SERVER_QUEUE, Answer, Begin, Held, Lane, LeasedTask, LeaseRequest, Report, WorkerInfo
from perdure.engine import query
from perdure.engine.keys import DEFAULT_COMPANY
from perdure.engine.lease import Lease, lease
from perdure.engine.stored import facts_of, value_of
from perdure.engine.sweep import LOCAL_WORKER
from perdure.errors import NotFound, PerdureError, PermanentError, UserError
from perdure.server.elsewhere import SERVED
from perdure.server.hub import DRAINING
from perdure.server.tasks import POLL_SECONDS, DirectTaskSource
from perdure.store.protocol import Reads
from perdure.toolbox.guarded_http import Outbound, secret_names
from perdure.toolbox.http_call import Asked, HttpCaller, before_anything
from perdure.toolbox.mcp_call import McpCaller
from perdure.worker.loop import Worker, WorkerOptions

if TYPE_CHECKING:
    from perdure.server.node import Node

SLOTS = 64
"""Calls of such tools at a time, in one server."""
MOST_LANES = 200
"""Different tools of different agents that are asked for at a time: one of each company, then another of each."""
KNOWN = 1_000
"""Calls that the worker can look up at a time: many more than it has slots."""
SIGN_SECONDS = 5.0
_NOWHERE = Lane("", SERVER_QUEUE, SERVER_QUEUE)
"""What the worker says that it serves, until a task comes."""


S = TypeVar("S", Report, Held)

Body = Callable[..., Awaitable[Json]]
"""Called with the arguments as `args`."""


@dataclass(frozen=True, slots=True)
class ServerTools:
    """How a server calls tools."""

    outbound: Outbound


def tools_by(environ: Mapping[str, str], names: Iterable[str] = (), *, allow_private: bool = False) -> ServerTools:
    """Return what an operator allows: what is said here, and by `PERDURE_ALLOW_PRIVATE_HTTP=1` and `PERDURE_TOOL_ENV`
    (names, by commas) in the environment."""
    allowed = {*names, *re.split(r"[,\s]+", environ.get("PERDURE_TOOL_ENV", ""))}
    variables = {name: environ[name] for name in allowed if name in environ}
    return ServerTools(Outbound(allow_private or environ.get("PERDURE_ALLOW_PRIVATE_HTTP") == "1", variables))


def server_worker(node: Node, options: ServerTools) -> Worker:
    """Return the worker that calls the server's tools for one node. Whoever takes the store over knows that it died
    with its owner."""
    tools = OrderedDict({_NOWHERE: _definition(_NOWHERE.tool, _refusing("no tool has this name."))})
    source = ServerTaskSource(node, options, tools)
    settings = WorkerOptions(slots=SLOTS, name="server tools", id_prefix=LOCAL_WORKER)
    return Worker(source, tools, settings, clock=node.parts.clock, random=node.parts.random)


class ServerTaskSource(DirectTaskSource):
    """`TaskSource` for the worker of the server's own tools: those of every company.

    Each task comes on a lane of its own making, as each execution keeps the definition that it began with: two of one
    agent may mean different endpoints by one name. What is said of a task is said in the name of the company whose
    execution it is of, which the store knows and nobody else says.
    """

    def __init__(self, node: Node, options: ServerTools, tools: OrderedDict[Lane, ToolDefinition]) -> None:
        super().__init__(node, DEFAULT_COMPANY)
        self._given = options.outbound
        self._tools = tools
        """The worker's, which looks up each task once, right after it came; what is old goes again."""
        self._asked: tuple[str, tuple[str, ...]] = "", ()
        """The last request's nonce and the companies asked with it: a lost answer may have held tasks of theirs."""
        self._last = ""
        """The company that was given something last."""
        self._companies: OrderedDict[str, str] = OrderedDict()
        """Of executions that tasks came from lately."""

    async def lease(self, request: LeaseRequest, *, wait_seconds: float) -> list[LeasedTask]:
        """Reserve what is ready, or wait for it. No wish of it stands: which lanes it wants is known when they come."""
        node, stir = self._node, asyncio.Event()
        until_ms = node.parts.clock.monotonic_ms() + wait_seconds * 1000
        topics = DRAINING, SERVED, ("tasks_all", ""), ("tasks", SERVER_QUEUE)
        with node.hub.listening(topics, lambda _note: stir.set()):
            while True:
                stir.clear()  # before looking: a task that is scheduled meanwhile must wake us
                tasks = await self.take(request)
                left = (until_ms - node.parts.clock.monotonic_ms()) / 1000
                if tasks or left <= 0 or node.draining:
                    return tasks
                with contextlib.suppress(TimeoutError):
                    pause = left if node.elsewhere.nothing_to_serve() else POLL_SECONDS  # else a look says so
                    await asyncio.wait_for(stir.wait(), min(left, pause))

    async def take(self, request: LeaseRequest) -> list[LeasedTask]:
        """Reserve what is ready. Companies share the slots; the one after the last that was given something is first.
        Costs a read if there is nothing."""
        ready = await self._bridge.read(_ready_lanes)
        nonce, before = self._asked
        in_turn = sorted(ready, key=lambda company: (company <= self._last, company))
        companies = tuple(dict.fromkeys([*(before if request.nonce == nonce else ()), *in_turn]))
        self._asked = request.nonce, companies
        given: list[LeasedTask] = []
        for place, company in enumerate(companies):
            if (left := request.slots - len(given)) <= 0:
                break
            share = -(-left // (len(companies) - place))  # what it leaves is there for those after it
            asked = replace(request, lanes=tuple(ready.get(company, ())), slots=share)
            tasks = await self._bridge.run(lease, Lease(company, asked))
            self._last = company if tasks else self._last
            given += [await self._known(company, task) for task in tasks]
        return given

    async def begin(self, begin: Begin) -> Answer:
        return await self._node.tasks(await self._company_of(begin.execution)).begin(begin)

    async def report(self, worker: str, reports: Sequence[Report]) -> list[Answer]:
        return await self._each(reports, lambda source, some: source.report(worker, some))

    async def beat(self, worker: str, held: Sequence[Held]) -> list[Answer]:
        return await self._each(held, lambda source, some: source.beat(worker, some))

    async def hand_back(self, worker: str, held: Sequence[Held]) -> list[Answer]:
        return await self._each(held, lambda source, some: source.hand_back(worker, some))

    async def _each(
        self, said: Sequence[S], say: Callable[[DirectTaskSource, list[S]], Awaitable[list[Answer]]]
    ) -> list[Answer]:
        """Say each thing in the name of its company; return the answers in the order of what was said."""
        places: dict[str, list[int]] = {}
        for place, one in enumerate(said):
            places.setdefault(await self._company_of(one.execution), []).append(place)
        answers: dict[int, Answer] = {}
        for company, some in places.items():
            found = await say(self._node.tasks(company), [said[place] for place in some])
            answers.update(zip(some, found, strict=True))
        return [answers[place] for place in range(len(said))]

    async def _company_of(self, execution: str) -> str:
        known = self._companies.get(execution)
        if known is not None:
            return known
        scope = {"shard": shard_of(execution), "execution": execution}
        row = await self._bridge.read(lambda reads: reads.row("company_of", **scope))
        return DEFAULT_COMPANY if row is None else row["company"]

    async def _known(self, company: str, task: LeasedTask) -> LeasedTask:
        """Have the worker know what to run for a task; returns it under that address."""
        lane = Lane(task.agent, task.tool, f"{SERVER_QUEUE}/{task.execution}/{task.address}")
        self._tools[lane] = _definition(task.tool, await self._body(company, task))
        self._companies[task.execution] = company
        for memory in (self._tools, self._companies):
            while len(memory) > KNOWN:
                memory.popitem(last=False)
        return replace(task, queue=lane.queue)

    async def _body(self, company: str, task: LeasedTask) -> Body:
        asked = Asked(task.args, task.key, task.delivery, task.timeout_ms / 1000)
        try:
            entry, name = await self._bridge.read(lambda reads: _entry_of(reads, company, task))
        except UserError as error:
            return _refusing(error.message)
        http, mcp = entry.http, entry.mcp
        if http is not None and is_simulation(task.tool):
            return _saying(http.simulated)
        return _calling(asked, partial(self._call, company, http, mcp, name))

    async def _call(
        self, company: str, http: HttpPart | None, mcp: McpPart | None, name: str | None, call: Asked
    ) -> Json:
        """Call an endpoint or a tool of an MCP server, or list its tools if no name is given."""
        if http is not None:
            return await HttpCaller(await self._outbound(company, http.headers, call)).call(http, call)
        assert mcp is not None
        caller = McpCaller(await self._outbound(company, mcp.headers, call))
        return await caller.list(mcp, call) if name is None else await caller.call(mcp, name, call)

    async def _outbound(self, company: str, headers: Mapping[str, str], call: Asked) -> Outbound:
        """Return what a call may use: of the company's secrets, those that its headers refer to, as they are now."""
        names = secret_names(headers)
        if not names:
            return self._given
        try:
            known = await self._node.secrets.of(company)
        except PerdureError as error:
            raise before_anything(error, call) from None
        return replace(self._given, secrets={name: known[name] for name in names if name in known})

    async def alive(self, info: WorkerInfo) -> AsyncIterator[str]:
        """It lives as long as its server, so nobody has to be told."""
        while True:
            yield f"{self._node.info().store}/{SERVER_QUEUE}"
            await self._node.parts.clock.sleep(SIGN_SECONDS)


def _ready_lanes(reads: Reads) -> dict[str, list[Lane]]:
    """Return what is ready, by company."""
    found: dict[str, list[Lane]] = {}
    for row in reads.rows("server_lanes", own=DEFAULT_COMPANY, queue=SERVER_QUEUE, limit=MOST_LANES):
        found.setdefault(row["company"], []).append(Lane(row["agent"], row["tool"], SERVER_QUEUE))
    return found


def _entry_of(reads: Reads, company: str, task: LeasedTask) -> tuple[ToolEntry, str | None]:
    """Return what the definition of an execution says of a task's tool; of one of an MCP server's, the server's entry
    and the tool's name there. Raises `UserError`."""
    row = query.execution_row_of(reads, company, task.execution)
    spec = spec_from_json(value_of(row["spec"], f"the definition of execution {task.execution}"))
    entry = spec.tool(simulated_tool(task.tool))
    if entry is not None and entry.by_server:
        return entry, None
    for server in (tool for tool in spec.tools if tool.mcp is not None):
        scope = {"shard": row["shard"], "execution": task.execution, "address": listing_address(server.name)}
        listed = [event for event in reads.rows("events_at", **scope) if event["kind"] == Kind.TASK_COMPLETED]
        what = f"the list of tools of {server.name}"
        known = entries_of(server, facts_of(listed[-1]["data"], what)["value"]) if listed else {}
        for name, tool in known.items():
            if tool.name == task.tool:
                return server, name
    raise NotFound(f"agent {task.agent!r} has no tool {task.tool!r} that a server calls.", code="unknown_tool")


def _calling(asked: Asked, call: Callable[[Asked], Awaitable[Json]]) -> Body:
    async def body(args: dict[str, Json]) -> Json:
        return await call(replace(asked, args=args))

    return body


def _saying(value: Json) -> Body:
    async def say(args: dict[str, Json]) -> Json:
        return value

    return say


def _definition(name: str, body: Body) -> ToolDefinition:
    signature = Signature("", {}, None, lambda args: {"args": args})
    return ToolDefinition(name, "", ToolOptions(queue=SERVER_QUEUE), body, signature)


def _refusing(why: str) -> Body:
    async def refuse(args: dict[str, Json]) -> Json:
        raise PermanentError(why, code="unknown_tool")

    return refuse
