"""A real server on a real socket over a real store, for tests: in this loop, or as a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from node_bench import KEYS
from perdure.agent.spec import AgentSpec, ToolEntry, spec_to_json
from perdure.client.http import HttpApi, HttpTaskSource
from perdure.core.approval import ApprovalRules
from perdure.core.codec import Json
from perdure.core.delivery import Delivery
from perdure.core.views import StartRequest
from perdure.models.catalog import Catalog
from perdure.models.port import Models
from perdure.models.scripted import Script, call, say
from perdure.server.node import Node, Parts
from perdure.server.options import ServeOptions
from perdure.server.serve import Ready, serve
from perdure.server.tool_source import tools_by
from perdure.service_loop import run
from perdure.system import SystemClock, SystemRandom
from which_store import own_store, store_at

SCRIPTS: Mapping[str, Script] = {
    "plain": [say("done")],
    "tool": [call("work", {"n": 1}), say("worked")],
    "approval": [call("pay", {"cents": 5}), say("paid")],
    "once": [call("fire", {"n": 1}), say("fired")],
    "four-eyes": [call("move", {"n": 1}), say("moved")],
}


FOUR_EYES = ApprovalRules(quorum=2, approvers=("ann", "bob", "carl"), not_by_starter=True)


def spec(script: str, *, name: str = "tester") -> dict[str, Json]:
    """Return an agent that plays a script of `SCRIPTS`."""
    tools = (
        ToolEntry("work", "Work.", {"type": "object"}),
        ToolEntry("pay", "Pay.", {"type": "object"}, approval_required=True),
        ToolEntry("fire", "Act once.", {"type": "object"}, delivery=Delivery.AT_MOST_ONCE),
        ToolEntry("move", "Move.", {"type": "object"}, approval_required=True, approval=FOUR_EYES),
    )
    return spec_to_json(AgentSpec(name, f"scripted/{script}", "Test.", tools))


def start_request(script: str, given: Json = "go", *, key: str | None = None) -> StartRequest:
    """Return a start of an agent that plays a script."""
    return StartRequest(spec(script), given, key)


@dataclass
class Server:
    """A server that runs in this loop."""

    node: Node
    url: str
    key: str
    stop: asyncio.Event
    closing: list[HttpApi | HttpTaskSource] = field(default_factory=list)

    def api(self, key: str | None = None) -> HttpApi:
        """Return a client; it is closed with the server."""
        api = HttpApi(self.url, self.key if key is None else key)
        self.closing.append(api)
        return api

    def tasks(self) -> HttpTaskSource:
        """Return a worker's source; it is closed with the server."""
        tasks = HttpTaskSource(self.url, self.key)
        self.closing.append(tasks)
        return tasks

    @property
    def address(self) -> tuple[str, int]:
        """Where to connect a socket."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)


def open_node(place: Path | str, models: Models | None = None, *, quiet: bool = False) -> Node:
    """Return a node over the store at a place, or at an address that stands for one; started, unless it is to be quiet:
    then it answers, and does nothing by itself."""
    clock, random = SystemClock(), SystemRandom()
    store, close = own_store(place, clock=clock, random=random)
    keys = KEYS if store.shared else ()
    tools = tools_by(os.environ) if "PERDURE_ALLOW_PRIVATE_HTTP" in os.environ else None
    parts = Parts(models or Catalog(scripted=SCRIPTS), clock, random, server_keys=keys, tools=tools)
    node = Node(store, parts, nonce=random.token(16).hex(), close=close)
    if not quiet:
        node.start()
    return node


@asynccontextmanager
async def serving(path: Path, options: ServeOptions | None = None) -> AsyncGenerator[Server]:
    """Run a server on a free port while the block lasts."""
    async with serving_node(open_node(path), options) as server:
        yield server


@asynccontextmanager
async def serving_node(node: Node, options: ServeOptions | None = None) -> AsyncGenerator[Server]:
    """As above, for a node that is there; it is stopped in the end."""
    stop = asyncio.Event()
    ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
    options = replace(options or ServeOptions(drain_seconds=2.0), port=0)
    task = asyncio.create_task(serve(node, options, on_ready=ready.set_result, stop=stop))
    server: Server | None = None
    try:
        await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        found = ready.result()
        server = Server(node, found.url, found.key, stop)
        yield server
    finally:
        for client in server.closing if server else ():
            await client.aclose()
        stop.set()
        try:
            await task
        finally:
            await asyncio.to_thread(node.stop)


@dataclass
class Process:
    """A server in a process of its own."""

    popen: subprocess.Popen[str]
    url: str
    key: str

    @property
    def address(self) -> tuple[str, int]:
        """Where to connect a socket."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    def memory_bytes(self) -> int:
        """Return its resident memory now."""
        text = Path(f"/proc/{self.popen.pid}/statm").read_text(encoding="ascii")
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def process(path: Path, *arguments: str) -> Generator[Process]:
    """Run a server as a process while the block lasts. `arguments`: `field=value` of `ServeOptions`."""
    command = [sys.executable, __file__, store_at(path), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as popen:
        try:
            assert popen.stdout is not None
            line = popen.stdout.readline()
            assert line, f"the server ended with {popen.wait()}"
            yield Process(popen, **json.loads(line))
        finally:
            with suppress(ProcessLookupError):
                popen.send_signal(signal.SIGKILL)


def main(arguments: Sequence[str]) -> None:
    """Serve until a signal; print the address and the key as one line."""
    given = dict(argument.split("=", 1) for argument in arguments[1:])
    options = ServeOptions(port=int(given.get("port", "0")), drain_seconds=float(given.get("drain_seconds", "4")))
    if "state_file" in given:
        options = replace(options, state_file=Path(given["state_file"]))
    node = open_node(arguments[0])

    def ready(found: Ready) -> None:
        sys.stdout.write(json.dumps({"url": found.url, "key": found.key}) + "\n")
        sys.stdout.flush()

    try:
        run(serve(node, options, on_ready=ready))
    finally:
        node.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
