"""A worker process for tests whose tool `work` returns a large text, and tells on stdout how often its body ran."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from perdure.agent.agent import Agent
from perdure.agent.tool import tool
from perdure.client.tasks import HttpTaskSource
from perdure.log import configure
from perdure.worker.loop import WorkerOptions
from perdure.worker.main import run_worker

LINE = 'a line with an ä and a " in it, 64 letters long with all of this.\n'


def content(size: int) -> str:
    """Return some text of at least so many letters, in which no two pieces are alike."""
    lines = size // len(LINE) + 1
    return "".join(f"{number:08d} {LINE}" for number in range(lines))


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def work_over_http(url: str, key: str, folder: Path, size: int) -> None:
    """Serve `tester`'s tools until a signal."""

    @tool
    def work(n: int) -> str:
        tell("ran")
        return content(size)

    @tool(delivery="at_most_once")
    def fire(n: int) -> str:
        tell("fired")
        return content(size)

    @tool
    def read(text: str) -> dict[str, int]:
        return {"letters": len(text), "same": int(text == content(size))}

    source = HttpTaskSource(url, key)
    agent = Agent(name="tester", model="scripted/x", tools=[work, fire, read])
    await run_worker(source, [agent], WorkerOptions(outbox=folder), on_connected=lambda _: tell("connected"))
    await source.aclose()


if __name__ == "__main__":
    configure("info")
    asyncio.run(work_over_http(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
