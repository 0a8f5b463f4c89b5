"""Temporal's development server on a SQLite file: a server process, and worker and driver in this one. Modes: `file`;
`file-local`, with local activities, whose results are stored only when the workflow's task ends.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from step_log import STEPS, body, ended
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from workloads import Contender, at_once, contest, until

MOST = timedelta(seconds=10)
"""For a step: also how long it takes to see that a killed worker will not report."""
ADDRESS = "BENCH_TEMPORAL"


@activity.defn
async def one_step(execution: str, number: int) -> str:
    return await body(execution, number)


@workflow.defn
class W1:
    @workflow.run
    async def run(self, execution: str, local: bool) -> str:
        """Ask a model and call a tool, five times."""
        execute: Any = workflow.execute_local_activity if local else workflow.execute_activity
        for number in range(STEPS):
            await execute(one_step, args=[execution, number], start_to_close_timeout=MOST)
        if not workflow.unsafe.is_replaying():
            ended(execution)
        return "done"


@workflow.defn
class W4:
    def __init__(self) -> None:
        self.said: str | None = None

    @workflow.run
    async def run(self, execution: str) -> str:
        """Ask a model, wait for a signal, call a tool."""
        await workflow.execute_activity(one_step, args=[execution, 0], start_to_close_timeout=MOST)
        await workflow.wait_condition(lambda: self.said is not None)
        await workflow.execute_activity(one_step, args=[execution, 1], start_to_close_timeout=MOST)
        return self.said or ""

    @workflow.signal
    def go(self, said: str) -> None:
        self.said = said


@dataclass
class Temporal(Contender):
    server_process: int = 0
    client: Client = field(init=False)
    worker: Worker = field(init=False)
    working: asyncio.Task[None] = field(init=False)
    handles: dict[str, WorkflowHandle[Any, Any]] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        return self.options.mode == "file-local"

    async def serve(self) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = str(found.getsockname()[1])
        os.environ[ADDRESS] = f"127.0.0.1:{port}"
        program = Path(sys.executable).parent / "temporal"
        quiet = ["--headless", "--log-level", "error", "--db-filename", self.options.folder / "temporal.db"]
        self.server_process = self.start(
            [program, "server", "start-dev", "--ip", "127.0.0.1", "--port", port, *quiet]
        ).pid
        await until(self._connect, "the server")

    async def _connect(self) -> bool:
        try:
            self.client = await Client.connect(os.environ[ADDRESS])
            async for _ in self.client.list_workflows("", limit=1):
                pass
        except Exception:  # noqa: BLE001 - whatever it is, it does not answer yet
            return False
        return True

    def _worker(self) -> Worker:
        whole = UnsandboxedWorkflowRunner()
        return Worker(self.client, task_queue="w", workflows=[W1, W4], activities=[one_step], workflow_runner=whole)

    async def open(self) -> None:
        self.worker = self._worker()
        self.working = asyncio.create_task(self.worker.run())

    async def close(self) -> None:
        await self.worker.shutdown()
        await self.working

    async def run(self, execution: str) -> None:
        await self.client.execute_workflow(W1.run, args=[execution, self.local], id=execution, task_queue="w")

    async def submit(self, executions: Sequence[str]) -> None:
        async def start(execution: str) -> None:
            await self.client.start_workflow(W1.run, args=[execution, self.local], id=execution, task_queue="w")

        await at_once(20, start, executions)

    async def work(self, executions: Sequence[str]) -> None:
        await until(self._connect, "the server")
        await self._worker().run()

    async def park(self, execution: str) -> None:
        self.handles[execution] = await self.client.start_workflow(W4.run, execution, id=execution, task_queue="w")

    async def all_parked(self, count: int) -> None:
        async def parked(execution: str) -> None:
            async def stepped() -> bool:
                history = await self.handles[execution].fetch_history()
                return any(event.HasField("activity_task_completed_event_attributes") for event in history.events)

            await until(stepped, f"the first step of {execution}")

        await at_once(10, parked, list(self.handles)[-200:])  # the youngest are the last to come so far

    async def release(self, execution: str) -> None:
        await self.handles[execution].signal(W4.go, "yes")

    async def ended(self, execution: str) -> None:
        await self.handles[execution].result()

    def processes(self) -> dict[str, int]:
        return {**super().processes(), "server": self.server_process}


if __name__ == "__main__":
    contest(Temporal)
