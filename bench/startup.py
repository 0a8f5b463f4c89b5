"""What a newcomer waits for and what an idle Perdure costs. Times are the least of N runs; sizes are as installed.

Prints: `import perdure`, `perdure --help`, server ready after launch and its resident memory when idle, what an idle
worker with ten tools asks of its server, and the distributions and megabytes of a default install (from the metadata
of this environment, extras left out).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import httpx2
from packaging.requirements import Requirement

from perdure import Agent, tool
from perdure.client.discover import running_server
from perdure.client.tasks import HttpTaskSource
from perdure.wire.state_file import ServerState
from perdure.worker.loop import Worker

PERDURE = (sys.executable, "-m", "perdure")


def least(command: list[str], runs: int) -> float:
    """Return the shortest time, in milliseconds, that a command took."""
    times: list[float] = []
    for _ in range(runs):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append((time.perf_counter() - began) * 1000)
    return min(times)


@contextmanager
def server(folder: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], float]]:
    """Run a server; give the process and how many milliseconds it took until it said that it was ready."""
    environment = {**os.environ, "XDG_STATE_HOME": str(folder)}
    began = time.perf_counter()
    command = [*PERDURE, "server", "--port", "0", "--store", str(folder / "p.db"), "--json", "--log-level", "error"]
    command += more
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        json.loads(process.stdout.readline())
        yield process, (time.perf_counter() - began) * 1000
    finally:
        process.terminate()
        process.wait(timeout=60)


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


class Counting(httpx2.AsyncHTTPTransport):
    """The real transport, which counts what passes."""

    requests = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests += 1
        return await super().handle_async_request(request)


def ten_tools() -> Agent:
    """Return an agent with ten tools."""

    def make(number: int) -> object:
        @tool(name=f"tool_{number}")
        def body() -> int:
            """Do nothing."""
            return number

        return body

    return Agent(name="idle", model="scripted/none", tools=[make(number) for number in range(10)])  # pyright: ignore[reportArgumentType]


async def idle_requests(state: ServerState, seconds: float) -> float:
    """Return the requests per second of an idle worker with ten tools."""
    transport = Counting()
    source = HttpTaskSource(state.url, state.key, transport=transport)
    worker = Worker(source, ten_tools().lanes())
    running = asyncio.create_task(worker.run())
    await worker.connected()
    await asyncio.sleep(seconds)
    count = transport.requests
    worker.stop()
    await running
    await source.aclose()
    return count / seconds


def installed() -> tuple[int, float]:
    """Return how many distributions a default install brings, Perdure included, and their size in MB."""
    found: dict[str, Distribution] = {}
    wanted = ["perdure"]
    while wanted:
        name = re.sub(r"[-_.]+", "-", wanted.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform
        for text in found[name].requires or []:
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                wanted += [need.name, *(f"{need.name}" for _ in need.extras)]
    size = sum(
        path.stat().st_size
        for dist in found.values()
        for file in dist.files or []
        if (path := Path(str(dist.locate_file(file)))).is_file() and path.suffix != ".pyc"
    )
    return len(found), size / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to watch the idle worker")
    options = parser.parse_args()
    base = least([sys.executable, "-c", "pass"], options.runs)
    imported = least([sys.executable, "-c", "import perdure"], options.runs) - base
    print(f"import perdure        {imported:8.0f} ms   (bar 150; an empty Python takes {base:.0f})")
    print(f"perdure --help        {least([*PERDURE, '--help'], options.runs):8.0f} ms   (bar 250)")
    times: list[float] = []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as (process, ready):
            times.append(ready)
    print(f"server ready after    {min(times):8.0f} ms   (bar 1,500)")
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as (process, _ready):
        state = asyncio.run(running_server(Path(folder) / "perdure" / "servers"))
        assert state is not None
        rate = asyncio.run(idle_requests(state, options.seconds))
        print(f"idle worker, 10 tools {rate:8.2f} requests/s, one process   (bar 1)")
        print(f"idle server           {resident_mb(process.pid):8.0f} MB resident   (bar 120)")
    count, size = installed()
    print(f"default install       {count:8d} distributions, {size:.0f} MB   (bar 50 and 100; without .pyc)")


if __name__ == "__main__":
    main()
