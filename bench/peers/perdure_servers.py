"""Perdure as several processes: servers, a worker for each, and this one, which drives them over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

from perdure_contender import SLOTS, Perdure
from perdure_work import SCRIPTS
from plain_http import Client
from step_log import ENDED, Told, told
from workloads import Contender, at_once, until

from perdure import Agent
from perdure.client.discover import running_server
from perdure.client.http import WAIT_SECONDS, HttpApi
from perdure.wire import routes
from perdure.worker.declared import start_request

PERDURE = (sys.executable, "-m", "perdure")


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
        scripts = [f"--script={name}=perdure_work:{name}_script" for name in SCRIPTS]
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
        command = [*PERDURE, "worker", f"perdure_work:{self.served[0]}", *slots, "--log-level", "warning"]
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
