"""Run ten-step agent executions, many at a time, beside the raw ceiling of the same rows in the same run.

Five scripted model replies with one tool call each, and a sixth that ends it. Short rounds alternate with
`bench/ceiling.py`, after one that does not count, in which modules are imported and caches filled. The best round of
each is compared: what else a machine does only ever slows a round down, and slows Python more than it slows SQLite. The
medians are printed too. Embedded: server, executor, worker and driver share one process, the async tool runs on a loop
of its own. `--http` adds a server process and a worker process: no bar yet.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import ceiling

from perdure import Agent, tool
from perdure.client.discover import running_server
from perdure.client.http import HttpApi
from perdure.core.views import StartRequest
from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest, ToolCall, Usage
from perdure.service_loop import ServiceLoop
from perdure.shared_store import open_node
from perdure.system import settle_memory
from perdure.wire.api import Api
from perdure.wire.state_file import ServerState
from perdure.worker.loop import Worker, WorkerOptions

TURNS = ceiling.TURNS
STEPS = TURNS * 2
BAR = 1 / 3
"""Of the ceiling, embedded."""


@tool
async def look(n: int) -> str:
    """Look something up."""
    return "t" * 500


agent = Agent(name="w1", model="scripted/w1", tools=[look])


def script(request: ModelRequest) -> ModelReply:
    """Call the tool five times, then answer."""
    turn = sum(message.role == "assistant" for message in request.messages)
    if turn == TURNS:
        return ModelReply("done", (), "stop", Usage(1, 2), "scripted/w1", 0.0)
    call = ToolCall(f"c{turn}", "look", f'{{"n":{turn}}}')
    return ModelReply("m" * 1000, (call,), "tool_call", Usage(1, 2), "scripted/w1", 0.0)


async def drive(api: Api, concurrency: int, seconds: float) -> float:
    """Keep `concurrency` executions going for `seconds`; return steps per second of those that completed."""
    spec, until, done = agent.compile(), time.perf_counter() + seconds, 0

    async def lane() -> None:
        nonlocal done
        while time.perf_counter() < until:
            started = await api.start(StartRequest(spec, "p" * 100))
            await api.wait(started.id)
            done += 1

    began = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(concurrency)))
    return done * STEPS / (time.perf_counter() - began)


def embedded(folder: Path, concurrency: int, seconds: float) -> float:
    """Return steps per second with everything in this process."""
    service = ServiceLoop("bench-service")
    service.start()
    node = open_node(folder / "steps.db", Catalog(scripted={"w1": script}))
    node.start(service.loop)
    worker = Worker(node.tasks("default"), agent.lanes(), WorkerOptions(slots=64, id_prefix="local/"))
    running = service.submit(worker.run())
    try:
        return service.wait(drive(node.api("default"), concurrency, seconds))
    finally:
        worker.stop()
        running.result()
        node.stop()
        service.stop()


def over_http(folder: Path, concurrency: int, seconds: float) -> float:
    """Return steps per second with a server process, a worker process, and this one starting executions."""
    environment = {**os.environ, "XDG_STATE_HOME": str(folder), "PYTHONPATH": str(Path(__file__).parent)}
    perdure = [sys.executable, "-m", "perdure"]
    store = str(folder / "http.db")
    server = subprocess.Popen(
        [*perdure, "server", "--port", "0", "--store", store, "--script", "w1=steps:script", "--log-level", "warning"],
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    processes = [server]
    try:
        state = asyncio.run(_running(folder / "perdure" / "servers"))
        command = [*perdure, "worker", "steps:agent", "--slots", "64", "--log-level", "warning"]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
        return asyncio.run(_drive_http(state, concurrency, seconds))
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(timeout=60)


async def _running(state_files: Path) -> ServerState:
    until = time.monotonic() + 60
    while (state := await running_server(state_files)) is None:
        if time.monotonic() > until:
            raise SystemExit("the server did not start within 60 s")
        await asyncio.sleep(0.05)
    return state


async def _drive_http(state: ServerState, concurrency: int, seconds: float) -> float:
    api = HttpApi(state.url, state.key)
    try:
        while not await api.workers():  # noqa: ASYNC110 - it comes from another process
            await asyncio.sleep(0.05)
        return await drive(api, concurrency, seconds)
    finally:
        await api.aclose()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--http", action="store_true", help="also with a server and a worker process")
    parser.add_argument("--no-bar", action="store_true", help="print, and judge nothing")
    options = parser.parse_args()
    raw: list[float] = []
    own: list[float] = []
    for lap in range(options.rounds + 1):
        if lap == 1:
            settle_memory()
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            raw.append(ceiling.measure(Path(folder), options.concurrency, options.seconds))
            own.append(embedded(Path(folder), options.concurrency, options.seconds))
    raw, own = raw[1:], own[1:]
    ratio = max(own) / max(raw)
    for name, rates in (("ceiling", raw), ("embedded", own)):
        shown = ", ".join(f"{rate:,.0f}" for rate in rates)
        print(f"{name:9} {max(rates):10,.0f} steps/s   (median {median(rates):,.0f}; {shown})")
    print(
        f"embedded / ceiling = {ratio:.2f} (bar {BAR:.2f}; of the medians {median(own) / median(raw):.2f}) "
        f"at concurrency {options.concurrency}, synchronous=FULL"
    )
    print(f"CPython {sys.version}")  # how it was compiled matters to our side, and not to SQLite
    if options.http:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            rate = over_http(Path(folder), options.concurrency, options.seconds)
        print(f"http      {rate:10,.0f} steps/s   server, worker and driver in a process each; no bar yet")
    return 0 if options.no_bar or ratio >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
