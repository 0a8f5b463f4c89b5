"""Perdure, driven as the peers are. Modes: `function` and `agent` (everything in this process, on SQLite),
`function-postgres` (the same on PostgreSQL), `function-http`, `agent-http` and `tasks-http` (a server process, a worker
process, and this one starting executions); `function-http-2` and `-3`: so many servers on a database, a worker at each.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import psycopg
from plain_http import Client
from step_log import ENDED, STEPS, TURNS, Told, body, did, ended, told
from workloads import PATIENCE_SECONDS, Contender, at_once, contest, until

from perdure import Agent, durable, tool
from perdure.client.discover import running_server
from perdure.client.http import WAIT_SECONDS, HttpApi
from perdure.database import open_database
from perdure.engine.sweep import LOCAL_WORKER
from perdure.flow import signal, step
from perdure.flow.durable import durable_definition
from perdure.models.catalog import Catalog
from perdure.models.port import ModelReply, ModelRequest, ToolCall, Usage
from perdure.server.functions import DirectFunctionSource
from perdure.server.node import Node, Parts
from perdure.service_loop import ServiceLoop
from perdure.shared_store import open_node
from perdure.system import SystemClock, SystemRandom
from perdure.wire import routes
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


@durable
async def once_function(execution: str) -> str:
    """The same, and no tool's body ever starts twice."""
    for number in range(STEPS):
        if number % 2:
            await step(body, execution, number, name="tool", delivery="at_most_once")
        else:
            await step(body, execution, number, name="model")
    ended(execution)
    return "done"


@durable
async def w4_function(execution: str) -> Any:
    """Ask a model, wait for a signal, call a tool."""
    await step(body, execution, 0, name="model")
    said = await signal("go")
    await step(body, execution, 1, name="tool")
    return said


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
    "pair": ("w1_function", w1_function),
    "once": ("once_function", once_function),
}
"""By the first word of a mode: what is run, and its name in this module."""


@dataclass
class Perdure(Contender):
    """What all modes share: executions are started and waited for by the verbs."""

    api: Api = field(init=False)

    def query(self, query: str) -> list[Any]:
        """Ask the store itself, as a witness that shares no code with the engine."""
        if self.options.database:
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
            return open_database(self.options.database, Parts(models, SystemClock(), SystemRandom()))[0]
        return open_node(self.options.folder / "store.db", models)

    def _worker(self) -> Worker | FunctionWorker:
        if isinstance(self.declared, Agent):
            options = WorkerOptions(slots=SLOTS, id_prefix=LOCAL_WORKER)
            return tool_worker(self.node.tasks("default"), [self.declared], options)
        definitions = [durable_definition(self.declared), durable_definition(w4_function)]
        source, own = partial(DirectFunctionSource, self.node, "default"), FunctionOptions(id_prefix=LOCAL_WORKER)
        return FunctionWorker(source, self.node.tasks("default"), definitions, own)


@dataclass
class ThreeProcesses(Perdure):
    """Server processes, a worker process for each, and this one, which starts executions and waits for them."""

    server_processes: list[int] = field(default_factory=list[int])
    worker_processes: list[int] = field(default_factory=list[int])
    """Those that `open` started; in W3 the last that was."""
    clients: list[Client] = field(default_factory=list[Client])
    """One for each server."""
    turn: Iterator[Client] = field(init=False)
    """They take turns at starting executions."""
    spec: Any = None
    unknown: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Effects of which nobody knows whether they happened."""
    settled_ns: int = 0

    @property
    def servers(self) -> int:
        """How many: what a mode ends in, or one."""
        last = self.options.mode.rpartition("-")[2]
        return int(last) if last.isdigit() else 1

    def environment(self, number: int) -> dict[str, str]:
        """Return that of a server, and of its worker: each server has a state folder, where its worker finds it."""
        here = str(Path(__file__).parent)
        path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        return {"XDG_STATE_HOME": str(self._state(number)), "PYTHONPATH": path}

    def _state(self, number: int) -> Path:
        return self.options.folder / f"state-{number}"

    async def serve(self) -> None:
        for number in range(self.servers):
            await self._serve(number)
        self.turn = cycle(self.clients)

    async def _serve(self, number: int) -> None:
        store = self.options.database or str(self.options.folder / "store.db")
        scripts = [f"--script={name}=on_perdure:{name}_script" for name in SCRIPTS]
        command = [*PERDURE, "server", "--port", "0", "--store", store, *scripts, "--log-level", "warning"]
        self.server_processes.append(self.start(command, **self.environment(number)).pid)
        states = self._state(number) / "perdure" / "servers"

        async def answers() -> bool:
            return await running_server(states) is not None

        await until(answers, "the server did not answer")
        state = await running_server(states)
        assert state is not None
        if not number:
            self.api = HttpApi(state.url, state.key)
        self.clients.append(Client(state.url, {"authorization": f"Bearer {state.key}"}))

    async def open(self) -> None:
        self.worker_processes = [self._start_worker(number).pid for number in range(self.servers)]
        await self._connected(self.servers)
        first = await self.api.start(start_request(self.declared, ("first",), {}, None))
        await self.api.wait(first.id)
        self.spec = start_request(self.declared, ("",), {}, None).spec

    async def run(self, execution: str) -> None:
        client = next(self.turn)
        started = json.loads(await client.ask("POST", routes.EXECUTIONS, {"spec": self.spec, "input": execution}))
        path = f"{routes.fill(routes.EXECUTION, execution=started['id'])}?wait_seconds={WAIT_SECONDS}"
        ended = json.loads(await client.ask("GET", path))
        if ended["state"] != "completed":
            raise SystemExit(f"{started['id']} did not complete: {ended}")

    async def _connected(self, count: int) -> None:
        async def connected() -> bool:
            return len(await self.api.workers()) >= count

        await until(connected, "no worker connected")

    def start_worker(self, *, again: bool = False) -> subprocess.Popen[Any]:
        if self.pair and again:
            return self.started[-1]  # it is there already
        worker = self._start_worker(0)
        self.worker_processes = [worker.pid]
        if self.pair:
            self._start_worker(0)
        return worker

    def _start_worker(self, number: int) -> subprocess.Popen[Any]:
        slots = ["--slots", str(SLOTS)] if isinstance(self.declared, Agent) else []  # of executions it has enough
        command = [*PERDURE, "worker", f"on_perdure:{self.served[0]}", *slots, "--log-level", "warning"]
        return self.start(command, **self.environment(number))

    @property
    def pair(self) -> bool:
        return self.options.mode == "pair-http"

    async def submit(self, executions: Sequence[str]) -> None:
        await self._connected(2 if self.pair else 1)
        spec = start_request(self.declared, ("",), {}, None).spec

        async def start(execution: str) -> None:
            await next(self.turn).ask("POST", routes.EXECUTIONS, {"spec": spec, "input": execution})

        await at_once(20, start, executions)

    async def settled(self, log: Path) -> bool:
        """Where tools act at most once, an execution with an unknown outcome goes no further by itself."""
        finished = {line.execution for line in told(log) if line.step == ENDED}
        if self.options.mode == "once-http" and len(finished) < self.options.count:
            unknown = await self.api.effects(state="uncertain")
            self.unknown = {(effect.execution, effect.address) for effect in unknown}
            self.settled_ns = time.monotonic_ns()
            return len(finished) + len({execution for execution, _ in self.unknown}) >= self.options.count
        return len(finished) >= self.options.count

    async def recovered(self, lines: Sequence[Told], killed_ns: int) -> dict[str, Any]:
        found = await super().recovered(lines, killed_ns)
        if self.pair:
            found["first_s"] = _first_taken_over(lines, killed_ns, self.worker_processes[0])
        if self.options.mode == "once-http":
            for execution, address in self.unknown:
                await self.api.rule(execution, address, "happened", by="bench", value="seen")
            log = self.options.folder / "steps.log"
            await until(lambda: Contender.settled(self, log), "all to end after rulings")
            made = Counter((line.execution, line.step) for line in told(log) if line.step % 2 and line.step != ENDED)
            found |= {
                "unknown": len(self.unknown),
                "doubled": sum(number - 1 for number in made.values()),
                "missing": 0,
            }
            if self.unknown:
                found["all_s"] = (self.settled_ns - killed_ns) / 1e9
        return found

    async def close(self) -> None:
        await self.refuse_failures()
        for client in self.clients:
            await client.close()
        await self.api.aclose()

    def processes(self) -> dict[str, int]:
        named = {"server": self.server_processes, "worker": self.worker_processes}
        own = {f"{role} {number}": pid for role, pids in named.items() for number, pid in enumerate(pids, 1)}
        return {**super().processes(), **own}


def _first_taken_over(lines: Sequence[Told], killed_ns: int, killed: int) -> float:
    """Return the seconds until a step was made of an execution that the killed worker had."""
    holders = {line.execution: line.process for line in lines if line.at_ns <= killed_ns}
    after = [line for line in lines if line.at_ns > killed_ns and line.process != killed]
    return min(line.at_ns - killed_ns for line in after if holders.get(line.execution) == killed) / 1e9


PERDURE = (sys.executable, "-m", "perdure")

if __name__ == "__main__":
    contest(lambda options: (ThreeProcesses if "-http" in options.mode else OneProcess)(options))
