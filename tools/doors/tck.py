"""Have the protocol's own kit (a2aproject/a2a-tck, branch 1.0-dev) look at a server, over JSON-RPC.

The kit says by the id of a message what the agent is to do with it, and sends the same id again and again, with other
texts and for other tasks; this server takes a message id once. So a relay between them gives each message a number in
the place of the kit's last eight letters. The agent's model is a script of ours that looks the id up.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from http_server import open_node, serving_node, spec
from perdure.core.events import Kind
from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest
from perdure.models.scripted import call, say
from perdure.server.node import Node
from perdure.server.options import ServeOptions

ADDRESS = "https://github.com/a2aproject/a2a-tck.git"
BRANCH = "1.0-dev"
NEEDS = (
    *("pytest", "pytest-asyncio", "pytest-html", "httpx", "grpcio", "protobuf", "googleapis-common-protos"),
    *("jsonschema", "gherkin-official", "Jinja2"),
)
"""What the kit needs, which is on no index itself."""
AGENT = "tester"
_ID = re.compile(rb'("messageId":\s*"tck-[\w-]+?-)[0-9a-f]{8}((?:-jsonrpc)?")')

Run = Callable[[list[str], Path], tuple[int, str, str]]


def looked_at(python: str, kit: Path, run: Run) -> Iterator[tuple[str, int, list[str], int]]:
    """Yield what came of the kit: how many of its tests held, which did not, and how many it left out."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        code, said, wrong = asyncio.run(_against(Path(folder) / "s.db", python, kit, report, run))
        if not report.exists():
            yield "the kit", 0, [f"ended with {code}: {(wrong or said).strip()[-300:]}"], 0
            return
        yield _counted(report)


async def _against(place: Path, python: str, kit: Path, report: Path, run: Run) -> tuple[int, str, str]:
    models = Catalog(scripted={"tck": lambda request: _reply(node, request)})
    node = open_node(place, models)
    async with serving_node(node, ServeOptions(auth=False)) as server, _relay(server.address) as port:
        await node.api("default").publish_agent(spec("tck", name=AGENT), description="Does as the kit says.")
        host = f"http://127.0.0.1:{port}/a2a/{AGENT}"
        command = [python, "-m", "pytest", "tests/compatibility", f"--sut-host={host}", "--transport=jsonrpc", "-q"]
        return await asyncio.to_thread(run, [*command, "--tb=no", f"--junitxml={report}"], kit)


async def _reply(node: Node, request: ModelRequest) -> ModelReply:
    """Do what the last message of the task is to have done, by its id."""
    execution = request.call.partition("/")[0]
    task = await node.a2a("default").task(AGENT, execution)
    later = [event.data["dedupe"] for event in task.events if event.kind is Kind.MESSAGE]
    wanted = (later or [task.message])[-1]
    waits = any(message.tool_calls for message in request.messages)
    if wanted.startswith("tck-input-required") and not waits:
        return call("pay", {"cents": 1})
    if wanted.startswith("tck-artifact-text"):
        return say("Generated text content")
    return say("Hello from TCK")


@asynccontextmanager
async def _relay(server: tuple[str, int]) -> AsyncGenerator[int]:
    """Pass bytes on both ways, and give each message a number."""
    numbers = itertools.count(1)

    async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, *, number: bool) -> None:
        with suppress(ConnectionError):
            while data := await source.read(1 << 20):
                target.write(
                    _ID.sub(lambda found: b"%s%08x%s" % (found[1], next(numbers), found[2]), data) if number else data
                )
                await target.drain()
        target.close()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*server)
        await asyncio.gather(pass_on(reader, back, number=True), pass_on(there, writer, number=False))

    relay = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield relay.sockets[0].getsockname()[1]
    finally:
        relay.close()


def _counted(report: Path) -> tuple[str, int, list[str], int]:
    good, left_out = 0, 0
    bad: list[str] = []
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - the kit's own report, which we asked for
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        if case.find("skipped") is not None:
            left_out += 1
        elif (failure := case.find("failure")) is not None or (failure := case.find("error")) is not None:
            bad.append(f"{name}: {(failure.get('message') or '')[:200]}")
        else:
            good += 1
    return f"`a2a-tck` {BRANCH}, JSON-RPC", good, bad, left_out
