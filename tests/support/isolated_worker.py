"""A worker process of one isolated call that hangs: to be killed, and to take all of it along."""

from __future__ import annotations

import isolated_tools
from memory_tasks import MemoryTasks
from perdure.system import SystemClock
from working import at_work, make_worker


async def main(path: str) -> None:
    """Have the call made; never returns by itself."""
    source = MemoryTasks(SystemClock())
    async with at_work(make_worker(source, SystemClock(), isolated_tools.hang)):
        address = source.add("hang", {"path": path})
        await source.reported(address)
