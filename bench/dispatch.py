"""From a task's schedule to its tool's start, on idle processes: server, worker and this driver on loopback.

One execution at a time, each with one tool call. The tool reports when its body started; the log says, in whole
milliseconds rounded down, when the task was scheduled, so up to one millisecond is counted too much.
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

from startup import PERDURE, server

from perdure import Agent, tool
from perdure.client.discover import running_server
from perdure.client.http import HttpApi
from perdure.core.events import Kind
from perdure.core.views import StartRequest
from perdure.models.port import ModelReply, ModelRequest, ToolCall, Usage


@tool
async def started_at() -> float:
    """Return the time, in milliseconds."""
    return time.time() * 1000


agent = Agent(name="dispatch", model="scripted/dispatch", tools=[started_at])


def script(request: ModelRequest) -> ModelReply:
    """Call the tool once, then answer."""
    if len(request.messages) > 1:
        return ModelReply("done", (), "stop", Usage(), "scripted/dispatch")
    return ModelReply("", (ToolCall("c", "started_at", "{}"),), "tool_call", Usage(), "scripted/dispatch")


async def measure(folder: Path, count: int) -> list[float]:
    """Return the milliseconds from schedule to start of `count` tool calls."""
    state = await running_server(folder / "perdure" / "servers")
    assert state is not None
    api = HttpApi(state.url, state.key)
    while not await api.workers():  # noqa: ASYNC110 - it comes from another process
        await asyncio.sleep(0.05)
    waits: list[float] = []
    for _ in range(count):
        started = await api.start(StartRequest(agent.compile(), "go"))
        await api.wait(started.id)
        events = await api.events(started.id)
        scheduled = next(event for event in events if event.kind is Kind.TASK_SCHEDULED)
        completed = next(event for event in events if event.kind is Kind.TASK_COMPLETED)
        waits.append(completed.data["value"] - scheduled.at_ms)
    await api.aclose()
    return waits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    options = parser.parse_args()
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = here
    with tempfile.TemporaryDirectory() as folder, server(Path(folder), "--script", "dispatch=dispatch:script"):
        environment = {**os.environ, "XDG_STATE_HOME": folder}
        command = [*PERDURE, "worker", "dispatch:agent", "--log-level", "error"]
        worker = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            waits = sorted(asyncio.run(measure(Path(folder), options.count)))
        finally:
            worker.terminate()
            worker.wait(timeout=60)
    p99 = waits[int(len(waits) * 0.99)]
    print(f"idle dispatch, schedule to tool start: p50 {median(waits):.1f} ms, p99 {p99:.1f} ms   (bar p50 5)")


if __name__ == "__main__":
    sys.exit(main())
