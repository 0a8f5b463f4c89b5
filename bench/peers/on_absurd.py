"""Absurd, on PostgreSQL: worker and driver in this process. Modes: `backlog` (executions are started first, then a
worker with its defaults is timed until all have ended: the SDK's wait for a result would measure its own pauses), and
`asked` (each is waited for; the worker looks for work each 10 ms, and not four times a second).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from absurd_sdk import AsyncAbsurd
from psycopg import AsyncConnection
from step_log import STEP_LOG, STEPS, body, ended
from workloads import AT_ONCE, Contender, Workload, contest, gaps_of, spent, until

BACKLOG_A_SECOND = {1: 100, 50: 130}
"""Executions to start for each second of measurement, by how many a worker runs at a time: about what it can end."""


def build(address: str) -> AsyncAbsurd:
    """Return a client that knows the tasks."""
    app = AsyncAbsurd(address, queue_name="default")

    @app.register_task(name="w1")
    async def w1(params: dict[str, str], ctx: Any) -> str:
        execution = params["execution"]
        for number in range(STEPS):
            await ctx.step(f"step {number}", lambda number=number: body(execution, number))
        ended(execution)
        return "done"

    @app.register_task(name="w4")
    async def w4(params: dict[str, str], ctx: Any) -> Any:
        execution = params["execution"]
        await ctx.step("model", lambda: body(execution, 0))
        said = await ctx.await_event(f"go:{execution}")
        await ctx.step("tool", lambda: body(execution, 1))
        return said

    return app


@dataclass
class Absurd(Contender):
    worker: AsyncAbsurd = field(init=False)
    client: AsyncAbsurd = field(init=False)
    working: asyncio.Task[None] = field(init=False)
    tasks: dict[str, str] = field(default_factory=dict[str, str])
    """Those of W4, by execution."""

    @property
    def tuned(self) -> dict[str, Any]:
        if self.options.mode == "backlog":
            return {"concurrency": self.options.concurrency}
        return {"concurrency": AT_ONCE, "poll_interval": 0.01, "claim_timeout": 10}

    async def serve(self) -> None:
        address = self.options.database
        program = Path(sys.executable).parent / "absurdctl"
        environment = {**os.environ, "ABSURD_DATABASE_URL": address, "PGDATABASE": address}
        for command in (["init"], ["create-queue", "default"]):
            await asyncio.to_thread(
                subprocess.run, [program, *command], check=True, capture_output=True, env=environment
            )
        self.client = build(address)

    async def open(self) -> None:
        self.worker = build(self.options.database)
        self.working = asyncio.create_task(self.worker.start_worker(**self.tuned))

    async def close(self) -> None:
        self.worker.stop_worker()
        await asyncio.wait((self.working,), timeout=2)
        self.working.cancel()
        await self.worker.close()
        await self.client.close()

    async def run(self, execution: str) -> None:
        spawned = await self.client.spawn("w1", {"execution": execution})
        await self.client.await_task_result(spawned["task_id"])

    async def submit(self, executions: Sequence[str]) -> None:
        for execution in executions:
            await self.client.spawn("w1", {"execution": execution})

    async def work(self, executions: Sequence[str]) -> None:
        await build(self.options.database).start_worker(**self.tuned)

    async def park(self, execution: str) -> None:
        self.tasks[execution] = (await self.client.spawn("w4", {"execution": execution}))["task_id"]

    async def all_parked(self, count: int) -> None:
        waiting = "(SELECT count(*) FROM absurd.w_default)"
        await self.counted(f"{waiting} + {COMPLETED}", count)

    async def release(self, execution: str) -> None:
        await self.client.emit_event(f"go:{execution}", "yes")

    async def ended(self, execution: str) -> None:
        await self.client.await_task_result(self.tasks[execution])

    async def all_ended(self, executions: Sequence[str]) -> None:
        await self.counted(COMPLETED, len(executions))  # a wait for each would poll for each

    async def counted(self, what: str, count: int) -> None:
        """Return once a query counts that many."""
        async with await AsyncConnection.connect(self.options.database, autocommit=True) as database:

            async def there() -> bool:
                found = await (await database.execute(f"SELECT {what}".encode())).fetchone()
                return found is not None and found[0] >= count

            await until(there, f"{count} of {what}")

    @property
    def own(self) -> dict[str, Workload]:
        return {"w1": backlog} if self.options.mode == "backlog" else {}


COMPLETED = "(SELECT count(*) FROM absurd.t_default WHERE state = 'completed')"


async def backlog(contender: Absurd) -> dict[str, Any]:
    """Start executions first, then time one worker until all have ended."""
    options = contender.options
    log = options.folder / "steps.log"
    if options.concurrency == 1:
        os.environ[STEP_LOG] = str(log)
    await contender.serve()
    count = max(10, round(options.seconds * BACKLOG_A_SECOND[options.concurrency]))
    await contender.submit([f"run-{number}" for number in range(count)])
    before, began = spent(contender), time.perf_counter()
    await contender.open()
    await contender.counted(COMPLETED, count)
    seconds = time.perf_counter() - began
    cpu_ms = {role: (after - before[role]) * 1000 / count for role, after in spent(contender).items()}
    await contender.close()
    rate = {"executions": count, "seconds": seconds, "steps_per_second": count * STEPS / seconds}
    return {**rate, "cpu_ms": cpu_ms, **gaps_of(log)}


if __name__ == "__main__":
    contest(Absurd)
