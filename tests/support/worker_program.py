"""A worker process for tests: its tool tells on stdout when it starts and stops, and then behaves as it is told to."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path

from memory_tasks import MemoryTasks
from perdure.agent.agent import Agent
from perdure.agent.tool import tool
from perdure.client.tasks import HttpTaskSource
from perdure.log import configure
from perdure.system import SystemClock
from perdure.worker.loop import WorkerOptions
from perdure.worker.main import run_worker


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@tool
async def patient() -> str:
    """Wait to be stopped."""
    tell("started")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        tell("cancelled")
        raise
    return ""


@tool
async def brief() -> str:
    """Finish soon after the first signal."""
    tell("started")
    await asyncio.sleep(0.3)
    tell("finished")
    return ""


@tool
def deaf() -> None:
    """Never stop."""
    tell("started")
    threading.Event().wait()


@tool
def busy() -> None:
    """Hold the interpreter for good, in pure Python."""
    tell("started")
    while True:
        time.monotonic()


async def over_http(url: str, key: str, gate: Path, lease_ms: int) -> None:
    """Serve `tester`'s tool `work`, whose body ends when a file is there, or kills the process."""

    @tool
    def work(n: int) -> str:
        tell("started")
        if gate.name == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        while not gate.exists():
            time.sleep(0.01)
        tell("finished")
        return "by the one that was stopped"

    source = HttpTaskSource(url, key)
    agent = Agent(name="tester", model="scripted/x", tools=[work])
    await run_worker(source, [agent], WorkerOptions(lease_ms=lease_ms))
    await source.aclose()


async def main(name: str, parent_pid: int | None, drain_seconds: float) -> int:
    source = MemoryTasks(SystemClock())
    address = source.add(name)
    agent = Agent(name="agent", model="scripted/x", tools=[patient, brief, deaf, busy])
    options = WorkerOptions(drain_seconds=drain_seconds)
    left = await run_worker(source, [agent], options, parent_pid=parent_pid)
    tell(f"{source.rows[address].state} {left}")
    return left


if __name__ == "__main__":
    if sys.argv[1] == "http":
        configure("info")
        asyncio.run(over_http(sys.argv[2], sys.argv[3], Path(sys.argv[4]), int(sys.argv[5])))
        sys.exit()
    parent = int(sys.argv[2]) or None
    if asyncio.run(main(sys.argv[1], parent, float(sys.argv[3]))):
        os._exit(7)
