"""A worker process for tests of its outbox and its death: its tools write down outside that they acted.

Run as a program: `outbox_program.py URL KEY FOLDER LEASE_MS`. `work` in FOLDER/hold is held until that file is gone.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.agent.agent import Agent
from perdure.agent.tool import tool
from perdure.client.tasks import HttpTaskSource
from perdure.core.work import WorkerInfo
from perdure.log import configure
from perdure.wire.worker_lock import default_folder
from perdure.worker.loop import WorkerOptions
from perdure.worker.main import run_worker


def acted(folder: Path) -> list[str]:
    """Return which tools acted, each with its process, in order."""
    path = folder / "acts"
    return path.read_text().split() if path.exists() else []


@contextmanager
def worker(
    url: str, key: str, folder: Path, lease_ms: int = 60_000, failpoints: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """Have a worker process while the block lasts. Its outbox is below `folder`."""
    folder.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(folder),
        "PERDURE_FAILPOINTS": failpoints,
        "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src"),
    }
    command = [sys.executable, __file__, url, key, str(folder), str(lease_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as popen:
        try:
            yield popen
        finally:
            popen.kill()


async def main(url: str, key: str, folder: Path, lease_ms: int) -> None:
    """Serve `tester`'s tools until a signal."""

    def act(name: str) -> str:
        with (folder / "acts").open("a") as file:
            file.write(f"{name}:{os.getpid()}\n")
        while (folder / "hold").exists():
            time.sleep(0.01)
        return f"{name} was done"

    @tool
    def work(n: int) -> str:
        """Act at least once."""
        return act("work")

    @tool(delivery="at_most_once")
    def fire(n: int) -> str:
        """Act at most once."""
        return act("fire")

    source = HttpTaskSource(url, key)
    agent = Agent(name="tester", model="scripted/x", tools=[work, fire])
    options = WorkerOptions(lease_ms=lease_ms, outbox=default_folder())

    def connected(info: WorkerInfo) -> None:
        sys.stdout.write(info.worker + "\n")
        sys.stdout.flush()

    await run_worker(source, [agent], options, on_connected=connected)
    await source.aclose()


if __name__ == "__main__":
    configure("info")
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
