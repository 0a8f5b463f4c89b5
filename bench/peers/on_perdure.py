"""Perdure, driven as the peers are. Modes: `function` and `agent` (everything in this process, on SQLite),
`function-postgres` (the same on PostgreSQL), `function-http`, `agent-http` and `tasks-http` (a server process, a worker
process, and this one starting executions); `function-http-2` and `-3`: so many servers on a database, a worker at each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from perdure_contender import SLOTS, Perdure
from perdure_work import SCRIPTS, w4_function
from workloads import PATIENCE_SECONDS, Contender, Options, at_once, contest, until

from perdure import Agent
from perdure.engine.sweep import LOCAL_WORKER
from perdure.flow.durable import durable_definition
from perdure.models.catalog import Catalog
from perdure.server.functions import DirectFunctionSource
from perdure.server.node import Node, Parts
from perdure.service_loop import ServiceLoop
from perdure.shared_store import open_node
from perdure.system import SystemClock, SystemRandom
from perdure.worker.declared import start_request
from perdure.worker.functions import FunctionOptions, FunctionWorker
from perdure.worker.loop import Worker, WorkerOptions
from perdure.worker.main import tool_worker

ID_BYTES = 30


class Ids:
    """Ids of executions by our names for them, `w4-17`. Their memory is there before any is measured: this process is
    the server too.
    """

    def __init__(self, most: int) -> None:
        self._ids = bytearray(b"." * (most * ID_BYTES))
        self._others: dict[str, str] = {}

    def keep(self, name: str, execution: str) -> None:
        workload, _, number = name.partition("-")
        if workload != "w4":
            self._others[name] = execution
            return
        assert len(execution) == ID_BYTES
        self._ids[int(number) * ID_BYTES : (int(number) + 1) * ID_BYTES] = execution.encode()

    def of(self, name: str) -> str:
        if name in self._others:
            return self._others[name]
        number = int(name.partition("-")[2])
        return self._ids[number * ID_BYTES : (number + 1) * ID_BYTES].decode()


@dataclass
class OneProcess(Perdure):
    """Server, worker and driver in this process, driven on the loop that the verbs run on."""

    ids: Ids = field(init=False)
    service: ServiceLoop = field(default_factory=lambda: ServiceLoop("bench-service"))
    node: Node = field(init=False)
    worker: Worker | FunctionWorker = field(init=False)

    def drive(self, work: Awaitable[Any]) -> Any:
        async def run() -> Any:
            return await work

        if self.options.workload == "w3":  # here, everything is in the process that will be killed
            return asyncio.run(run())
        self.service.start()
        self.node = self._open_store()
        self.node.start(self.service.loop)
        self.worker = self._worker()
        running = self.service.submit(self.worker.run())
        try:
            return self.service.wait(run())
        finally:
            self.worker.stop()
            running.result()
            self.node.stop()
            self.service.stop()

    async def open(self) -> None:
        self.api = self.node.api("default")
        self.ids = Ids(self.options.count)
        await self.worker.connected()

    async def close(self) -> None:
        await self.refuse_failures()

    async def work(self, executions: Sequence[str]) -> None:
        await self.open()
        if not self.options.again:
            await at_once(20, self._start, executions)
        await asyncio.Event().wait()

    async def _start(self, execution: str) -> None:
        await self.api.start(start_request(self.declared, (execution,), {}, None))

    async def park(self, execution: str) -> None:
        started = await self.api.start(start_request(w4_function, (execution,), {}, None))
        self.ids.keep(execution, started.id)

    async def all_parked(self, count: int) -> None:
        query = "SELECT count(*) FROM executions WHERE ownership = 'parked'"

        async def parked() -> bool:
            return (await asyncio.to_thread(self.query, query))[0][0] >= count

        await until(parked, "all to wait", PATIENCE_SECONDS + count / 100)

    async def release(self, execution: str) -> None:
        await self.api.signal(self.ids.of(execution), "go", "yes")

    async def ended(self, execution: str) -> None:
        await self.api.wait(self.ids.of(execution))

    def _open_store(self) -> Node:
        models = Catalog(scripted=SCRIPTS)
        if self.options.database:
            from perdure.database import open_database  # noqa: PLC0415 - only this mode needs it

            return open_database(self.options.database, Parts(models, SystemClock(), SystemRandom()))[0]
        return open_node(self.options.folder / "store.db", models)

    def _worker(self) -> Worker | FunctionWorker:
        if isinstance(self.declared, Agent):
            options = WorkerOptions(slots=SLOTS, id_prefix=LOCAL_WORKER)
            return tool_worker(self.node.tasks("default"), [self.declared], options)
        definitions = [durable_definition(self.declared), durable_definition(w4_function)]
        source, own = partial(DirectFunctionSource, self.node, "default"), FunctionOptions(id_prefix=LOCAL_WORKER)
        return FunctionWorker(source, self.node.tasks("default"), definitions, own)


def contender(options: Options) -> Contender:
    """Return the one that a mode names. What only the other loads is left out, as users' programs leave it out."""
    if "-http" in options.mode:
        from perdure_servers import ThreeProcesses  # noqa: PLC0415

        return ThreeProcesses(options)
    return OneProcess(options)


if __name__ == "__main__":
    contest(contender)
