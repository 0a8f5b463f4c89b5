"""Perdure, driven as the peers are. Modes: `function` and `agent` (everything in this process, on SQLite),
`function-postgres` (the same on PostgreSQL), `function-http`, `agent-http` and `tasks-http` (a server process on
SQLite, a worker process, and this one starting executions).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from plain_http import Client
from workloads import STEPS, TURNS, Contender, body, contest, did, ended, until

from perdure import Agent, durable, tool
from perdure.client.discover import running_server
from perdure.client.http import HttpApi
from perdure.database import open_database
from perdure.engine.sweep import LOCAL_WORKER
from perdure.flow import step
from perdure.flow.durable import durable_definition
from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest, ToolCall, Usage
from perdure.server.functions import DirectFunctionSource
from perdure.server.node import Node, Parts
from perdure.service_loop import ServiceLoop
from perdure.shared_store import open_node
from perdure.system import SystemClock, SystemRandom
from perdure.wire import frames, routes
from perdure.wire.api import Api
from perdure.worker.declared import start_request
from perdure.worker.functions import FunctionOptions, FunctionWorker
from perdure.worker.loop import Worker, WorkerOptions
from perdure.worker.main import tool_worker

SLOTS = 64
CALLS_AT_ONCE = 50
"""In `tasks-http`: tool calls of the one reply, so that nearly all work is that of tasks."""


@durable
async def w1_function(execution: str) -> str:
    """Ask a model and call a tool, five times."""
    for number in range(STEPS):
        await step(body, execution, number, name="tool" if number % 2 else "model")
    ended(execution)
    return "done"


@tool
async def look(execution: str, n: int) -> str:
    """Look something up."""
    return await body(execution, n)


agent = Agent(name="w1", model="scripted/w1", tools=[look])
many = Agent(name="many", model="scripted/many", tools=[look])


def w1_script(request: ModelRequest) -> ModelReply:
    """Call the tool five times, one call a reply, then answer."""
    turn = sum(message.role == "assistant" for message in request.messages)
    if turn == TURNS:
        return ModelReply("done", (), "stop", Usage(1, 2), "scripted/w1", 0.0)
    return _reply(request, [2 * turn + 1], 2 * turn)


def many_script(request: ModelRequest) -> ModelReply:
    """Make all calls in one reply, then answer."""
    if len(request.messages) > 1:
        return ModelReply("done", (), "stop", Usage(1, 2), "scripted/many", 0.0)
    return _reply(request, range(1, 2 * CALLS_AT_ONCE, 2), 0)


def _reply(request: ModelRequest, calls: Sequence[int], number: int) -> ModelReply:
    execution = request.messages[0].text
    made = tuple(ToolCall(f"c{n}", "look", f'{{"execution":"{execution}","n":{n}}}') for n in calls)
    return ModelReply(did(execution, number), made, "tool_call", Usage(1, 2), request.model, 0.0)


SCRIPTS = {"w1": w1_script, "many": many_script}
SERVED: dict[str, tuple[str, Any]] = {
    "function": ("w1_function", w1_function),
    "agent": ("agent", agent),
    "tasks": ("many", many),
}
"""By the first word of a mode: what is run, and its name in this module."""


@dataclass
class Perdure(Contender):
    """What all modes share: executions are started and waited for by the verbs."""

    api: Api = field(init=False)

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


@dataclass
class OneProcess(Perdure):
    """Server, worker and driver in this process, driven on the loop that the verbs run on."""

    service: ServiceLoop = field(default_factory=lambda: ServiceLoop("bench-service"))
    node: Node = field(init=False)
    worker: Worker | FunctionWorker = field(init=False)

    def drive(self, work: Awaitable[Any]) -> Any:
        async def run() -> Any:
            return await work

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
        await self.worker.connected()

    async def close(self) -> None:
        await self.refuse_failures()

    def _open_store(self) -> Node:
        models = Catalog(scripted=SCRIPTS)
        if self.options.database:
            return open_database(self.options.database, Parts(models, SystemClock(), SystemRandom()))[0]
        return open_node(self.options.folder / "store.db", models)

    def _worker(self) -> Worker | FunctionWorker:
        if isinstance(self.declared, Agent):
            options = WorkerOptions(slots=SLOTS, id_prefix=LOCAL_WORKER)
            return tool_worker(self.node.tasks("default"), [self.declared], options)
        definitions = [durable_definition(self.declared)]
        source, own = partial(DirectFunctionSource, self.node, "default"), FunctionOptions(id_prefix=LOCAL_WORKER)
        return FunctionWorker(source, self.node.tasks("default"), definitions, own)


@dataclass
class ThreeProcesses(Perdure):
    """A server process, a worker process, and this one, which starts executions and waits for them."""

    server_process: int = 0
    worker_process: int = 0
    client: Client = field(init=False)
    spec: Any = None
    before_its_end: int = 0
    """The `seq` of the last event but one: the driver follows a log from there, and so hears of its end alone."""

    @property
    def environment(self) -> dict[str, str]:
        here = str(Path(__file__).parent)
        path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        return {"XDG_STATE_HOME": str(self.options.folder / "state"), "PYTHONPATH": path}

    async def serve(self) -> None:
        store = self.options.database or str(self.options.folder / "store.db")
        scripts = [f"--script={name}=on_perdure:{name}_script" for name in SCRIPTS]
        command = [*PERDURE, "server", "--port", "0", "--store", store, *scripts, "--log-level", "warning"]
        self.server_process = self.start(command, **self.environment).pid
        states = self.options.folder / "state" / "perdure" / "servers"

        async def answers() -> bool:
            return await running_server(states) is not None

        await until(answers, "the server did not answer")
        state = await running_server(states)
        assert state is not None
        self.api = HttpApi(state.url, state.key)
        self.client = Client(state.url, {"authorization": f"Bearer {state.key}"})

    async def open(self) -> None:
        self.start_worker()

        async def connected() -> bool:
            return bool(await self.api.workers())

        await until(connected, "no worker connected")
        first = await self.api.start(start_request(self.declared, ("first",), {}, None))
        await self.api.wait(first.id)
        self.before_its_end = len(await self.api.events(first.id)) - 1
        self.spec = start_request(self.declared, ("",), {}, None).spec

    async def run(self, execution: str) -> None:
        started = json.loads(await self.client.ask("POST", routes.EXECUTIONS, {"spec": self.spec, "input": execution}))
        path = routes.fill(routes.EVENTS, execution=started["id"])
        wanted = {"accept": frames.MEDIA_TYPE, "last_event_id": str(self.before_its_end)}
        said = await self.client.ask("GET", path, **wanted)
        if b"event: completed" not in said:
            raise SystemExit(f"{started['id']} did not complete: {said[:300]!r}")

    def start_worker(self) -> None:
        command = [*PERDURE, "worker", f"on_perdure:{self.served[0]}", "--slots", str(SLOTS), "--log-level", "warning"]
        self.worker_process = self.start(command, **self.environment).pid

    async def close(self) -> None:
        await self.refuse_failures()
        await self.client.close()
        await self.api.aclose()

    def processes(self) -> dict[str, int]:
        return {**super().processes(), "server": self.server_process, "worker": self.worker_process}


PERDURE = (sys.executable, "-m", "perdure")

if __name__ == "__main__":
    contest(lambda options: (ThreeProcesses if options.mode.endswith("http") else OneProcess)(options))
