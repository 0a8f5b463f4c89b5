"""What all modes of Perdure share: executions are started by the verbs, and the store itself is asked what it holds."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from perdure_work import CALLS_AT_ONCE, SERVED, many
from step_log import ENDED, STEPS, Told
from workloads import Contender

from perdure.wire.api import Api
from perdure.worker.declared import start_request

SLOTS = 64


@dataclass
class Perdure(Contender):
    """What all modes share: executions are started and waited for by the verbs."""

    api: Api = field(init=False)

    def query(self, query: str) -> list[Any]:
        """Ask the store itself, as a witness that shares no code with the engine."""
        if self.options.database:
            import psycopg  # noqa: PLC0415 - only this mode needs it

            with psycopg.connect(self.options.database) as database:
                return list(database.execute(query.encode()).fetchall())
        file = f"file:{self.options.folder / 'store.db'}?mode=ro"
        with closing(sqlite3.connect(file, uri=True, timeout=30)) as database:
            return database.execute(query).fetchall()

    async def recovered(self, lines: Sequence[Told], killed_ns: int) -> dict[str, Any]:
        """Compare what bodies told with what the store recorded, and when."""
        at_ms = {(name, step): when for name, step, when in self._recorded()}
        wall_ns = time.time_ns() - time.monotonic_ns()
        runs: dict[tuple[str, int], list[Told]] = {}
        for line in lines:
            runs.setdefault((line.execution, line.step), []).append(line)
        again = [
            key
            for key, made in runs.items()
            if len(made) > 1 and key in at_ms and at_ms[key] < (made[-1].at_ns + wall_ns) // 1_000_000
        ]
        finished = {line.execution for line in lines if line.step == ENDED}
        return {"recorded_again": len(again), "missing": self.options.count - len(finished)}

    def _recorded(self) -> Iterator[tuple[str, int, int]]:
        """Yield what the store has recorded: execution, step, and when."""
        names = {
            execution: json.loads(data)["input"]
            for execution, data in self.query("SELECT execution, data FROM events WHERE kind = 'started'")
        }
        wanted = "SELECT execution, address, at_ms FROM events WHERE kind IN ('step_recorded', 'task_completed')"
        for execution, address, at_ms in self.query(wanted):
            kind, _, occurrence = address.partition("/")
            number = 2 * (int(occurrence or 1) - 1) + (kind == "tool")
            yield names[execution], number, at_ms

    @property
    def steps(self) -> int:
        return CALLS_AT_ONCE if self.declared is many else STEPS

    @property
    def served(self) -> tuple[str, Any]:
        return SERVED[self.options.mode.split("-")[0]]

    @property
    def declared(self) -> Any:
        return self.served[1]

    async def run(self, execution: str) -> None:
        started = await self.api.start(start_request(self.declared, (execution,), {}, None))
        await self.api.wait(started.id)

    async def refuse_failures(self) -> None:
        """End the run if an execution did not complete: it would be quick, and worth nothing."""
        for state in ("failed", "stuck", "cancelled"):
            if found := (await self.api.executions(state=state, limit=1)).items:
                raise SystemExit(f"{found[0].id} is {state}")
