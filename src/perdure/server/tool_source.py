"""The queue of the tools that the server itself calls, and what runs them: a worker in the server's own process.

They are tasks like any others: leased, begun, tried again and reported by the same rules, whatever dies in between.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perdure.agent.discovery import entries_of, listing_address
from perdure.agent.schema import Signature
from perdure.agent.spec import ToolEntry, spec_from_json
from perdure.agent.tool import ToolDefinition, ToolOptions
from perdure.core import codec
from perdure.core.codec import Json
from perdure.core.events import Kind
from perdure.core.work import SERVER_QUEUE, Lane, LeasedTask, LeaseRequest, WorkerInfo
from perdure.engine import query
from perdure.engine.keys import DEFAULT_COMPANY
from perdure.engine.sweep import LOCAL_WORKER
from perdure.errors import NotFound, PermanentError, UserError
from perdure.server.tasks import DirectTaskSource
from perdure.store.protocol import Reads
from perdure.toolbox.guarded_http import Outbound
from perdure.toolbox.http_call import Asked, HttpCaller
from perdure.toolbox.mcp_call import McpCaller
from perdure.worker.loop import Worker, WorkerOptions

if TYPE_CHECKING:
    from perdure.server.node import Node

SLOTS = 64
"""Calls of such tools at a time, in one server."""
MOST_LANES = 200
"""Different tools of different agents that are asked for at a time; the longest due come first."""
KNOWN = 1_000
"""Calls that the worker can look up at a time: many more than it has slots."""
SIGN_SECONDS = 5.0
_NOWHERE = Lane("", SERVER_QUEUE, SERVER_QUEUE)
"""What the worker says that it serves, until a task comes."""


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
    """`TaskSource` for the worker of the server's own tools.

    Each task comes on a lane of its own making, as each execution keeps the definition that it began with: two of one
    agent may mean different endpoints by one name.
    """

    def __init__(self, node: Node, options: ServerTools, tools: OrderedDict[Lane, ToolDefinition]) -> None:
        super().__init__(node, DEFAULT_COMPANY)
        self._http = HttpCaller(options.outbound)
        self._mcp = McpCaller(options.outbound)
        self._tools = tools
        """The worker's, which looks up each task once, right after it came; what is old goes again."""
        self._asked = ""
        """The nonce whose tasks a lost answer may have held."""

    async def take(self, request: LeaseRequest) -> list[LeasedTask]:
        """Reserve what is ready. Costs a read as long as there is nothing."""
        lanes = await self._bridge.read(_ready_lanes)
        if not lanes and request.nonce != self._asked:
            return []
        self._asked = request.nonce
        tasks = await super().take(replace(request, lanes=tuple(lanes)))
        return [await self._known(task) for task in tasks]

    async def _known(self, task: LeasedTask) -> LeasedTask:
        """Have the worker know what to run for a task; returns it under that address."""
        lane = Lane(task.agent, task.tool, f"{SERVER_QUEUE}/{task.execution}/{task.address}")
        self._tools[lane] = _definition(task.tool, await self._body(task))
        while len(self._tools) > KNOWN:
            self._tools.popitem(last=False)
        return replace(task, queue=lane.queue)

    async def _body(self, task: LeasedTask) -> Body:
        asked = Asked(task.args, task.key, task.delivery, task.timeout_ms / 1000)
        try:
            entry, name = await self._bridge.read(lambda reads: _entry_of(reads, task))
        except UserError as error:
            return _refusing(error.message)
        http, mcp = entry.http, entry.mcp
        if http is not None:
            return _calling(asked, lambda call: self._http.call(http, call))
        assert mcp is not None
        if name is None:
            return _calling(asked, lambda call: self._mcp.list(mcp, call))
        return _calling(asked, lambda call: self._mcp.call(mcp, name, call))

    async def alive(self, info: WorkerInfo) -> AsyncIterator[str]:
        """It lives as long as its server, so nobody has to be told."""
        while True:
            yield f"{self._node.info().store}/{self._company}/{SERVER_QUEUE}"
            await self._node.parts.clock.sleep(SIGN_SECONDS)


def _ready_lanes(reads: Reads) -> list[Lane]:
    rows = reads.rows("server_lanes", company=DEFAULT_COMPANY, queue=SERVER_QUEUE, limit=MOST_LANES)
    return [Lane(row["agent"], row["tool"], SERVER_QUEUE) for row in rows]


def _entry_of(reads: Reads, task: LeasedTask) -> tuple[ToolEntry, str | None]:
    """Return what the definition of an execution says of a task's tool; of one of an MCP server's, the server's entry
    and the tool's name there. Raises `UserError`."""
    row = query.execution_row_of(reads, DEFAULT_COMPANY, task.execution)
    spec = spec_from_json(codec.decode(row["spec"]))
    entry = spec.tool(task.tool)
    if entry is not None and entry.by_server:
        return entry, None
    for server in (tool for tool in spec.tools if tool.mcp is not None):
        scope = {"shard": row["shard"], "execution": task.execution, "address": listing_address(server.name)}
        listed = [event for event in reads.rows("events_at", **scope) if event["kind"] == Kind.TASK_COMPLETED]
        known = entries_of(server, codec.decode(listed[-1]["data"])["value"]) if listed else {}
        for name, tool in known.items():
            if tool.name == task.tool:
                return server, name
    raise NotFound(f"agent {task.agent!r} has no tool {task.tool!r} that a server calls.", code="unknown_tool")


def _calling(asked: Asked, call: Callable[[Asked], Awaitable[Json]]) -> Body:
    async def body(args: dict[str, Json]) -> Json:
        return await call(replace(asked, args=args))

    return body


def _definition(name: str, body: Body) -> ToolDefinition:
    signature = Signature("", {}, None, lambda args: {"args": args})
    return ToolDefinition(name, "", ToolOptions(queue=SERVER_QUEUE), body, signature)


def _refusing(why: str) -> Body:
    async def refuse(args: dict[str, Json]) -> Json:
        raise PermanentError(why, code="unknown_tool")

    return refuse
