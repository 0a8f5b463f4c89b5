"""DBOS Transact: everything in this process. Modes: `sqlite`, as it comes; `sqlite-wal`, on a file that was switched to
a write-ahead log before, which it does not do itself; `postgres`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from dbos import DBOS, SetWorkflowID
from step_log import STEPS, body, ended
from workloads import Contender, contest, until


@DBOS.step()
async def one_step(execution: str, number: int) -> str:
    return await body(execution, number)


@DBOS.workflow()
async def w1(execution: str) -> str:
    """Ask a model and call a tool, five times."""
    for number in range(STEPS):
        await one_step(execution, number)
    ended(execution)
    return "done"


@DBOS.workflow()
async def w4(execution: str) -> Any:
    """Ask a model, wait for a signal, call a tool."""
    await one_step(execution, 0)
    said = await DBOS.recv_async("go", timeout_seconds=3600)
    await one_step(execution, 1)
    return said


@dataclass
class Dbos(Contender):
    handles: dict[str, Any] = field(default_factory=dict[str, Any])

    async def serve(self) -> None:
        if self.options.mode == "sqlite-wal":
            with closing(sqlite3.connect(self.options.folder / "dbos.sqlite")) as database:
                database.execute("PRAGMA journal_mode = WAL")

    async def open(self) -> None:
        url = self.options.database or f"sqlite:///{self.options.folder / 'dbos.sqlite'}"
        logs: dict[str, Any] = {"log_level": "ERROR", "console_log_level": "ERROR"}
        same: dict[str, Any] = {"application_version": "1", "executor_id": "1"}  # who comes after a crash is the same
        DBOS(config={"name": "bench", "system_database_url": url, **logs, **same})
        DBOS.launch()

    async def close(self) -> None:
        DBOS.destroy()

    async def run(self, execution: str) -> None:
        with SetWorkflowID(execution):
            handle = await DBOS.start_workflow_async(w1, execution)
        await handle.get_result()

    async def work(self, executions: Sequence[str]) -> None:
        await self.open()  # takes up what another process left
        if not self.options.again:

            async def start(execution: str) -> None:
                with SetWorkflowID(execution):
                    await DBOS.start_workflow_async(w1, execution)

            await asyncio.gather(*(start(execution) for execution in executions))
        await asyncio.Event().wait()

    async def park(self, execution: str) -> None:
        with SetWorkflowID(execution):
            self.handles[execution] = await DBOS.start_workflow_async(w4, execution)

    async def all_parked(self, count: int) -> None:
        async def there() -> bool:
            return await asyncio.to_thread(self._steps) >= count

        await until(there, "all model steps")
        await asyncio.sleep(1 if count > 100 else 0)  # from the step to the wait: nothing in the tables says so

    def _steps(self) -> int:
        query = "SELECT count(*) FROM {}operation_outputs WHERE function_name LIKE '%one_step%' AND function_id = 1"
        if self.options.database:
            import psycopg  # noqa: PLC0415 - only this mode has it

            with psycopg.connect(self.options.database) as database:
                found = database.execute(query.format("dbos.").encode()).fetchone()
        else:
            with closing(sqlite3.connect(self.options.folder / "dbos.sqlite", timeout=30)) as database:
                found = database.execute(query.format("")).fetchone()
        return int(found[0]) if found else 0

    async def release(self, execution: str) -> None:
        await DBOS.send_async(execution, "yes", "go")

    async def ended(self, execution: str) -> None:
        await self.handles[execution].get_result()

    async def all_ended(self, executions: Sequence[str]) -> None:
        await asyncio.gather(*(self.ended(execution) for execution in executions))


if __name__ == "__main__":
    contest(Dbos)
